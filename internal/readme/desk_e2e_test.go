//go:build e2e

package readme_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// examples/desk on the real binary: what docs/hooks.md, docs/tools.md and
// docs/agents.md say of it.
func TestE2E_Desk(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	if err := os.CopyFS(s.dir, os.DirFS(filepath.Join(root, "examples", "desk"))); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "NATS_URL="+s.serve())

	if out, status := s.run("crumb", "run", "desk", "--run-id", "r1", "--input", `{"order":"A1"}`); status != waiting {
		t.Fatalf("crumb run: status %d, want %d:\n%s", status, waiting, out)
	}
	if out := s.must("crumb", "approvals", "show", "r1.2.0"); !strings.Contains(out, "5000") {
		t.Errorf("the question does not show the arguments that the hook left:\n%s", out)
	}
	s.must("crumb", "approvals", "approve", "r1.2.0")
	out := s.must("crumb", "watch", "r1")
	for _, want := range []string{"answered 529", "attempt 2", `"percent":50`, "file:generated", "report.txt", "All done."} {
		if !strings.Contains(out, want) {
			t.Errorf("the run does not show %q:\n%s", want, out)
		}
	}
	uri := regexp.MustCompile(`files:[a-z]+\.[^/]+/r1/[0-9a-f]{64}`).FindString(out)
	if got := s.must("crumb", "files", "get", uri); got != "Order A1 was refunded.\n" {
		t.Errorf("crumb files get %s: %q", uri, got)
	}
	if told, err := os.ReadFile(filepath.Join(s.dir, "told.jsonl")); err != nil || strings.Count(string(told), "r1.2.0") != 1 {
		t.Errorf("the onSuspend hook was told: %v\n%s", err, told)
	}

	if out := s.must("crumb", "run", "desk", "--input", `{"order":"closed"}`); !strings.Contains(out, "All done.") || strings.Contains(out, "tool:call") {
		t.Errorf("a short circuit ends with what afterRun makes of it, and no tool runs:\n%s", out)
	}
	if out, status := s.run("crumb", "run", "desk", "--input", `{"order":"stolen"}`); status != 1 || !strings.Contains(out, "hook:error") || !strings.Contains(out, "this order was stolen") {
		t.Errorf("a guard that fails: status %d\n%s", status, out)
	}
	if out, status := s.run("crumb", "run", "desk", "--input", `{}`); status == 0 || !strings.Contains(out, "INVALID_INPUT") {
		t.Errorf("an input outside the schema: status %d\n%s", status, out)
	}
	if out := s.must("crumb", "run", "verdict", "--input", `"go"`); !strings.Contains(out, "OUTPUT_INVALID") || !strings.Contains(out, `{"verdict":"ok"}`) {
		t.Errorf("an answer that is mended:\n%s", out)
	}
	if out := s.must("crumb", "run", "tally", "--input", `"go"`); !strings.Contains(out, `["one","two"]`) {
		t.Errorf("a custom format:\n%s", out)
	}
}
