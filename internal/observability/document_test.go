package observability_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/telemetry/instrument"
)

var update = flag.Bool("update", false, "write the table of docs/operations-observability.md again")

var document = filepath.Join("..", "..", "docs", "operations-observability.md")

const (
	tableBegin = "<!-- metrics -->\n"
	tableEnd   = "<!-- /metrics -->"
)

// table is the table of the document.
func table() string {
	var b strings.Builder
	b.WriteString("\n| on the page | kind | labels | by | |\n|---|---|---|---|---|\n")
	for _, i := range instrument.All() {
		labels := make([]string, len(i.Labels))
		for n, l := range i.Labels {
			labels[n] = "`" + instrument.PrometheusLabel(l) + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", i.Prometheus(), i.Kind, strings.Join(labels, " "), i.By, i.Help)
	}
	b.WriteString("\n")
	return b.String()
}

// The table of the document is that of the code.
func TestDocument_TableIsThatOfTheCode(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), tableBegin)
	got, after, ended := strings.Cut(rest, tableEnd)
	if !ok || !ended {
		t.Fatalf("no %s and %s in %s", tableBegin, tableEnd, document)
	}
	if *update {
		if err := os.WriteFile(document, []byte(before+tableBegin+table()+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != table() {
		t.Errorf("the table is stale: run `go test ./internal/observability -update`")
	}
}

// Every row says everything, once.
func TestTable_IsComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, i := range instrument.All() {
		if seen[i.Name] || i.Unit == "" || i.By == "" || !strings.HasSuffix(i.Help, ".") {
			t.Errorf("%+v: a row without something, or twice", i)
		}
		if (i.Kind == instrument.Histogram) != (len(i.Buckets) > 0) {
			t.Errorf("%s is a %s with %d buckets", i.Name, i.Kind, len(i.Buckets))
		}
		seen[i.Name] = true
	}
}
