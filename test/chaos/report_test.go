package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/test/chaos/internal/check"
	"github.com/crumbmesh/crumbmesh/test/chaos/internal/nemesis"
)

func TestReport_SaysWhatWasFound(t *testing.T) {
	t.Parallel()
	one := outcome{Scenario: "processes", Took: time.Minute, Done: []done{{Action: nemesis.Action{Kind: nemesis.KillServer}}, {Action: nemesis.Action{Kind: nemesis.KillServer}}},
		Result: check.Result{Count: check.Count{Accepted: 7, Outcomes: map[string]int{"ok": 20, "unknown": 1}, Unknown: map[string]int{"kill -9 of a service": 1}},
			Violations: []check.Violation{{Rule: check.RuleOnce, Run: "run_1", Text: "call happened 2 times"}}}}
	page, err := newReport(42, time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), []outcome{one}).render()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Seed 42, 2026-12-01.", "| processes | 2 | kill -9 of a nats-server |", "| runs accepted | 7 |", "| calls by outcome | 20 ok, 1 unknown |",
		"| 1 kill -9 of a service |", "| 1m0s |",
		"at most once, whatever became of it. | 1 |", "none missing, none twice. | 0 |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

// The page in docs was written by this suite: it has every line of the template
// that is the same in all campaigns, and every promise.
func TestReport_PageIsOfThisSuite(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/chaos.md")
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		has[strings.TrimSpace(line)] = true
	}
	for line := range strings.Lines(page) {
		if line = strings.TrimSpace(line); !strings.Contains(line, "{{") && !has[line] {
			t.Errorf("docs/chaos.md lacks %q; write it again with `make chaos REPORT=1`", line)
		}
	}
	for _, p := range check.Promises() {
		if !strings.Contains(string(text), "| "+string(p.Rule)+" | "+p.Text+" | 0 |") {
			t.Errorf("docs/chaos.md does not say that %s was kept; write it again with `make chaos REPORT=1`", p.Rule)
		}
	}
}
