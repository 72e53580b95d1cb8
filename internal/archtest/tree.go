package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Module is the path of the Go module.
const Module = "github.com/crumbmesh/crumbmesh"

// File is one parsed Go file.
type File struct {
	Path    string   // from the root, with slashes
	Dir     string   // of the package, from the root
	Test    bool     // a _test.go file
	Imports []Import // in their order
	Tree    *ast.File
	set     *token.FileSet
}

// Import is an import declaration.
type Import struct {
	Path string
	Pos  token.Pos
}

// Document is a Markdown file.
type Document struct {
	Path string
	Text string
}

// Tree is what the rules look at.
type Tree struct {
	Files     []File
	Documents []Document
	root      fs.FS
}

// at is the place of a node, for a violation.
func (f File) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", f.Path, f.set.Position(pos).Line)
}

// local is the package's folder when an import is one of ours.
func local(imported string) (string, bool) {
	if imported == Module {
		return ".", true
	}
	return strings.CutPrefix(imported, Module+"/")
}

// below reports whether dir is the folder parent or lies in it.
func below(dir, parent string) bool {
	return dir == parent || strings.HasPrefix(dir, parent+"/")
}

// ignored are folders that hold nothing of ours: downloads, builds, data.
func ignored(name string) bool {
	switch name {
	case ".git", "bin", "node_modules", ".crumbmesh", "testdata":
		return true
	}
	return false
}

// Load reads every Go file and document of a tree.
func Load(root fs.FS) (*Tree, error) {
	tree := &Tree{root: root}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if ignored(entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		switch path.Ext(name) {
		case ".go":
			return tree.addFile(name)
		case ".md":
			return tree.addDocument(name)
		}
		return nil
	})
	return tree, err
}

func (t *Tree) addFile(name string) error {
	source, err := fs.ReadFile(t.root, name)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse %s: %w", name, err)
	}
	file := File{Path: name, Dir: path.Dir(name), Test: strings.HasSuffix(name, "_test.go"), Tree: parsed, set: set}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("import of %s: %w", name, err)
		}
		file.Imports = append(file.Imports, Import{Path: imported, Pos: spec.Pos()})
	}
	t.Files = append(t.Files, file)
	return nil
}

func (t *Tree) addDocument(name string) error {
	text, err := fs.ReadFile(t.root, name)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	t.Documents = append(t.Documents, Document{Path: name, Text: string(text)})
	return nil
}
