package conformance

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Pin is a test that names a case.
type Pin struct {
	ID   string
	Test string // TestX, TestX/part for a subtest, x.txtar for a script
	Dir  string // of its package, from the root
}

// protocolDir holds the only tests in which P1 is a promise of the protocol and
// not a paragraph of the specification.
const protocolDir = "internal/protocol"

var (
	named      = regexp.MustCompile(`(?:^|[^A-Za-z0-9])(CF[_-][A-Z]\d{2}|F\d{3}|(?:DA)?16[23])(?:[^A-Za-z0-9]|$)`)
	promise    = regexp.MustCompile(`_(P\d{1,2})(?:_|$)`)
	testPrefix = regexp.MustCompile(`^(Test|Fuzz|Example)[A-Z0-9_]?`)
)

// scripts is where a package keeps its testscript files; a script has no name to
// put an id into, so the comment that it begins with carries it.
const scripts = "testdata/script"

// Scan finds the pins of a tree: the ids in names of tests and in the names of
// their subtests that are written out, and in the first comment of test scripts.
// They come sorted by id, folder and test.
func Scan(root fs.FS) ([]Pin, error) {
	var out []Pin
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", "node_modules", "bin"}, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if dir := path.Dir(name); path.Ext(name) == ".txtar" && strings.HasSuffix("/"+dir, "/"+scripts) {
			pins, err := scanScript(root, name)
			out = append(out, pins...)
			return err
		}
		// This package's own tests name cases only to test the scan.
		if !strings.HasSuffix(name, "_test.go") || strings.Contains(name, "testdata/") || path.Dir(name) == "internal/conformance" {
			return nil
		}
		pins, err := scanFile(root, name)
		out = append(out, pins...)
		return err
	})
	slices.SortFunc(out, func(a, b Pin) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Dir, b.Dir), cmp.Compare(a.Test, b.Test))
	})
	return slices.Compact(out), err
}

func scanFile(root fs.FS, name string) ([]Pin, error) {
	source, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	var out []Pin
	dir := path.Dir(name)
	for _, d := range parsed.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || !testPrefix.MatchString(fn.Name.Name) {
			continue
		}
		test := fn.Name.Name
		for _, id := range ids(test, dir) {
			out = append(out, Pin{ID: id, Test: test, Dir: dir})
		}
		for _, part := range parts(fn) {
			for _, id := range ids(part, dir) {
				out = append(out, Pin{ID: id, Test: test + "/" + strings.ReplaceAll(part, " ", "_"), Dir: dir})
			}
		}
	}
	return out, nil
}

func scanScript(root fs.FS, name string) ([]Pin, error) {
	source, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	var out []Pin
	dir := strings.TrimSuffix(strings.TrimSuffix(path.Dir(name), scripts), "/")
	for line := range strings.Lines(string(source)) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		for _, id := range ids(line, dir) {
			out = append(out, Pin{ID: id, Test: path.Base(name), Dir: dir})
		}
	}
	return out, nil
}

// ids are the cases that a name carries.
func ids(name, dir string) []string {
	var out []string
	for rest := name; ; {
		m := named.FindStringSubmatchIndex(rest)
		if m == nil {
			break
		}
		id := strings.ReplaceAll(rest[m[2]:m[3]], "_", "-")
		if id[0] == '1' { // a bare number of the delta-adl list
			id = "DA" + id
		}
		out = append(out, id)
		rest = rest[m[3]:] // the separator may begin the next id
	}
	if dir == protocolDir || strings.HasPrefix(dir, protocolDir+"/") {
		for _, m := range promise.FindAllStringSubmatch(name, -1) {
			out = append(out, m[1])
		}
	}
	return out
}

// parts are the names of subtests that a test writes out: literals given to Run,
// keys of a table, and fields called name.
func parts(fn *ast.FuncDecl) []string {
	var out []string
	add := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				out = append(out, s)
			}
		}
	}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Run" && len(n.Args) == 2 {
				add(n.Args[0])
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "name" {
				add(n.Value)
			}
			add(n.Key)
		}
		return true
	})
	return out
}
