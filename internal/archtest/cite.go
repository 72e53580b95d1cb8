package archtest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	paper   = regexp.MustCompile(`[A-Za-z0-9_./-]*[A-Za-z0-9_-]\.md\b`)
	inTree  = regexp.MustCompile(`(?:^|[\s(\x60])((?:docs|schemas)/[A-Za-z0-9_./*<>‹›-]+)`)
	record  = regexp.MustCompile(`\bADR ([0-9]{4})\b`)
	section = regexp.MustCompile(`§|\bDESIGN\b`)
)

// written are documents that agents and tools have or write: no part of the
// repository's own reading.
var written = []string{"prompt.md", "published.md"}

// citing are files that may cite what is not here, each with the reason.
var citing = map[string]string{
	"pkg/agent/limit.go": "its comment goes with the next change of the bounds",
	"bench/main.go":      "docs/performance.md comes with the first results",
}

// Citations finds comments and documents that send the reader to a document that
// is not in the repository: a Markdown file, a path below docs/ or schemas/, an
// ADR, or a numbered section, which no document here has.
func Citations(t *Tree) []string {
	var out []string
	for _, f := range t.Files {
		if citing[f.Path] != "" {
			continue
		}
		for _, group := range f.Tree.Comments {
			for _, c := range group.List {
				for i, line := range strings.Split(c.Text, "\n") {
					for _, why := range t.uncited(f.Dir, line) {
						out = append(out, fmt.Sprintf("%s:%d: %s", f.Path, f.set.Position(c.Pos()).Line+i, why))
					}
				}
			}
		}
	}
	for _, d := range t.Documents {
		for n, line := range prose(d.Text) {
			line = link.ReplaceAllString(line, "]") // the rule Links holds those
			for _, why := range t.uncited(path.Dir(d.Path), line) {
				out = append(out, fmt.Sprintf("%s:%d: %s", d.Path, n+1, why))
			}
		}
	}
	return out
}

// uncited says what of a line cites something that is not there.
func (t *Tree) uncited(dir, line string) []string {
	var out []string
	if s := section.FindString(line); s != "" {
		out = append(out, fmt.Sprintf("%s cites a section of a document that is not here; name a heading, or say it here", s))
	}
	for _, name := range paper.FindAllString(line, -1) {
		if !slices.Contains(written, path.Base(name)) && !t.has(name) && !t.has(path.Join(dir, name)) {
			out = append(out, fmt.Sprintf("cites %s, which is not here", name))
		}
	}
	for _, m := range inTree.FindAllStringSubmatch(line, -1) {
		name := strings.TrimRight(m[1], "./")
		pattern := strings.ContainsAny(name, "*<‹")
		if !pattern && path.Ext(name) != ".md" && !t.has(name) {
			out = append(out, fmt.Sprintf("cites %s, which is not here", name))
		}
	}
	for _, m := range record.FindAllStringSubmatch(line, -1) {
		if found, err := fs.Glob(t.root, "docs/adr/"+m[1]+"-*.md"); err != nil || len(found) == 0 {
			out = append(out, fmt.Sprintf("cites ADR %s, which is not in docs/adr", m[1]))
		}
	}
	return out
}

// has reports whether a file or folder of that path is in the tree.
func (t *Tree) has(name string) bool {
	if !fs.ValidPath(name) {
		return false
	}
	_, err := fs.Stat(t.root, name)
	return err == nil
}
