package readme_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// document is a page of the repository.
func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// part is what stands under a heading of a page, up to the next one of its level.
func part(t *testing.T, page, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, "\n"+heading+"\n")
	if !found {
		t.Fatalf("there is no heading %q", heading)
	}
	level, _, _ := strings.Cut(heading, " ")
	text, _, _ := strings.Cut(rest, "\n"+level+" ")
	return text
}

// blocks are the code blocks of a language, in order.
func blocks(text, language string) []string {
	var out []string
	for {
		_, rest, found := strings.Cut(text, "```"+language+"\n")
		block, after, closed := strings.Cut(rest, "```")
		if !found || !closed {
			return out
		}
		out, text = append(out, block), after
	}
}
