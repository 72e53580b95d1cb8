package fault_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

var update = flag.Bool("update", false, "rewrite docs/errors.md")

// docs/errors.md is what the catalogue says.
func TestErrorsDoc_IsTheCatalogue(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "docs", "errors.md")
	want := errorsDoc()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/errors.md differs from the catalogue: run `go test ./pkg/fault -update`")
	}
}

func errorsDoc() []byte {
	var b bytes.Buffer
	b.WriteString(`# Errors

One error type crosses a subject: ` + "`{\"code\", \"message\", \"retryAfterMs\"?, \"context\"?}`" + ` (schemas/common.v1.json,
` + "`Error`" + `). Its code is one of the list below, which is closed and append-only; the message says what was expected, what
came and what to do. Causes, stacks and secrets stay in the process. This page is generated from pkg/fault/codes.go by
` + "`go test ./pkg/fault -update`" + `.

| code | when | what to do |
|---|---|---|
`)
	for _, e := range fault.Catalogue() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.Code, cell(e.Meaning), cell(e.Remedy))
	}
	return b.Bytes()
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// A code is upper snake case, stands once, and says when and what to do.
func TestCatalogue_EntriesAreComplete(t *testing.T) {
	t.Parallel()
	upper := regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)
	seen := map[fault.Code]bool{}
	for _, e := range fault.Catalogue() {
		if !upper.MatchString(string(e.Code)) || seen[e.Code] {
			t.Errorf("%s: not upper snake case, or listed twice", e.Code)
		}
		seen[e.Code] = true
		for _, text := range []string{e.Meaning, e.Remedy} {
			if !strings.HasSuffix(text, ".") || strings.Contains(text, "\n") {
				t.Errorf("%s: %q is not one line of sentences", e.Code, text)
			}
		}
	}
	if len(seen) == 0 {
		t.Error("the catalogue is empty")
	}
}

// Every Code constant of codes.go is in the catalogue.
func TestCatalogue_HasEveryConstant(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("codes.go")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, e := range fault.Catalogue() {
		listed[string(e.Code)] = true
	}
	constants := regexp.MustCompile(`Code += "([A-Z_]+)"`).FindAllStringSubmatch(string(source), -1)
	for _, c := range constants {
		if !listed[c[1]] {
			t.Errorf("%s is not in the catalogue", c[1])
		}
	}
	if len(constants) != len(listed) {
		t.Errorf("%d constants, %d entries", len(constants), len(listed))
	}
}
