package archtest

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Sleeps finds time.Sleep in tests: they wait for signals, or in a synctest bubble.
func Sleeps(t *Tree) []string {
	return inTests(t, func(f File, n ast.Node) string {
		if s, ok := selector(n, "time"); ok && s.Sel.Name == "Sleep" {
			return f.at(s.Pos()) + ": time.Sleep in a test; wait for a signal, or use testing/synctest"
		}
		return ""
	})
}

// Skips finds tests that skip themselves. What needs more than Go stands behind
// the tag e2e instead.
func Skips(t *Tree) []string {
	names := []string{"Skip", "Skipf", "SkipNow"}
	return inTests(t, func(f File, n ast.Node) string {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return ""
		}
		for _, receiver := range []string{"t", "b", "f", "tb"} {
			if s, ok := selector(call.Fun, receiver); ok && slices.Contains(names, s.Sel.Name) {
				return f.at(s.Pos()) + ": a test that skips itself proves nothing; put what needs more than Go behind the tag e2e"
			}
		}
		return ""
	})
}

func inTests(t *Tree, find func(File, ast.Node) string) []string {
	var out []string
	for _, f := range t.Files {
		if !f.Test && !supportsTests(f.Dir) {
			continue
		}
		ast.Inspect(f.Tree, func(n ast.Node) bool {
			if v := find(f, n); v != "" {
				out = append(out, v)
			}
			return true
		})
	}
	return out
}

// Inits finds init functions: what a package needs is given to it.
func Inits(t *Tree) []string {
	var out []string
	for _, f := range t.Files {
		for _, d := range f.Tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				out = append(out, f.at(fn.Pos())+": init(); construct it where it is used")
			}
		}
	}
	return out
}

var unfinished = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)

// Unfinished finds comments that put work off.
func Unfinished(t *Tree) []string {
	var out []string
	for _, f := range t.Files {
		for _, group := range f.Tree.Comments {
			for _, c := range group.List {
				if word := unfinished.FindString(c.Text); word != "" {
					out = append(out, fmt.Sprintf("%s: %s; finish it, or refuse it with NOT_AVAILABLE", f.at(c.Pos()), word))
				}
			}
		}
	}
	return out
}

// vague are package names that say nothing.
var vague = []string{"util", "utils", "common", "helper", "helpers", "base", "types", "models", "misc", "shared"}

// Names finds packages without a noun of their own.
func Names(t *Tree) []string {
	var out []string
	for _, f := range t.Files {
		if slices.Contains(vague, f.Tree.Name.Name) || slices.Contains(vague, path.Base(f.Dir)) {
			out = append(out, fmt.Sprintf("%s: package %s has no noun; name it by what it holds", f.Path, f.Tree.Name.Name))
		}
	}
	return out
}

// tags are the build tags in use: e2e for suites that need more than Go, slim for a
// binary without the OTLP exporter, unix for
// process groups, race and windows as Go sets them.
var tags = []string{"e2e", "linux", "slim", "unix", "race", "windows"}

// Tags finds files that a plain build leaves out for another reason.
func Tags(t *Tree) []string {
	var out []string
	for _, f := range t.Files {
		for _, group := range f.Tree.Comments {
			for _, c := range group.List {
				if !constraint.IsGoBuild(c.Text) || c.Pos() > f.Tree.Package {
					continue
				}
				expr, err := constraint.Parse(c.Text)
				if err != nil {
					out = append(out, fmt.Sprintf("%s: %v", f.at(c.Pos()), err))
					continue
				}
				expr.Eval(func(tag string) bool {
					if !slices.Contains(tags, tag) {
						out = append(out, fmt.Sprintf("%s: build tag %s; known are %s", f.at(c.Pos()), tag, strings.Join(tags, ", ")))
					}
					return true
				})
			}
		}
	}
	return out
}

// endToEnd begins the names of tests behind the tag e2e, by which `make test-all`
// runs them alone.
const endToEnd = "TestE2E"

// EndToEnd finds tests behind the tag e2e under another name, which would never
// run, and tests of that name outside of it.
func EndToEnd(t *Tree) []string {
	var out []string
	for _, f := range t.Files {
		tagged := f.needs("e2e")
		for _, d := range f.Tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !f.Test || !strings.HasPrefix(fn.Name.Name, "Test") || fn.Name.Name == "TestMain" {
				continue
			}
			if strings.HasPrefix(fn.Name.Name, endToEnd) != tagged {
				out = append(out, fmt.Sprintf("%s: %s: tests behind the tag e2e, and no others, begin with %s", f.at(fn.Pos()), fn.Name.Name, endToEnd))
			}
		}
	}
	return out
}

// needs reports whether a file is built with the tag only.
func (f File) needs(tag string) bool {
	for _, group := range f.Tree.Comments {
		for _, c := range group.List {
			if !constraint.IsGoBuild(c.Text) || c.Pos() > f.Tree.Package {
				continue
			}
			expr, err := constraint.Parse(c.Text)
			if err == nil && expr.Eval(func(string) bool { return true }) && !expr.Eval(func(t string) bool { return t != tag }) {
				return true
			}
		}
	}
	return false
}
