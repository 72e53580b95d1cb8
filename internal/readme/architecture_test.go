package readme_test

import (
	"slices"
	"strings"
	"testing"
)

const golden = "services/orchestrator/internal/core/testdata/publisher.txt"

// What docs/ARCHITECTURE.md quotes are the lines of the golden file, in order and
// none missing but those that it says are left out.
func TestArchitecture_QuotesTheGoldenFile(t *testing.T) {
	t.Parallel()
	var want []string
	for line := range strings.Lines(document(t, golden)) {
		line = strings.TrimSuffix(line, "\n")
		told := !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "> timer.set ")
		if line != "" && told {
			want = append(want, line)
		}
	}
	quoted := strings.Join(blocks(part(t, document(t, "docs/ARCHITECTURE.md"), "## One run"), "text"), "")
	got := strings.Split(strings.TrimSuffix(quoted, "\n"), "\n")
	for i := range max(len(got), len(want)) {
		if g, w := at(got, i), at(want, i); g != w {
			t.Fatalf("quoted line %d:\n got %s\nwant %s (%s)", i+1, g, w, golden)
		}
	}
}

// Every stream, bucket and object store is on the page.
func TestArchitecture_NamesEveryStream(t *testing.T) {
	t.Parallel()
	page := part(t, document(t, "docs/ARCHITECTURE.md"), "## Subjects and streams")
	words := strings.FieldsFunc(page, func(r rune) bool { return strings.ContainsRune(" \n,:{}", r) })
	for line := range strings.Lines(document(t, "pkg/crumbs/subject.go")) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " = \"")
		name = strings.TrimSpace(name)
		if !ok || !strings.HasPrefix(name, "Stream") && !strings.HasPrefix(name, "Bucket") && !strings.HasPrefix(name, "Objects") {
			continue
		}
		if value = strings.TrimSuffix(value, "\""); !slices.Contains(words, value) {
			t.Errorf("the page does not name %s (%s)", value, name)
		}
	}
}

// at is item i, "" where there is none.
func at(items []string, i int) string {
	if i < len(items) {
		return items[i]
	}
	return ""
}
