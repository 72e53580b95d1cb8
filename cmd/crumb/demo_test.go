package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/local"
	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// What the demo's run leaves, in order. The two results of the first turn come in
// the order in which their tools ended.
var demoCrumbs = []string{
	"agent:run:start",
	"step:end", "tool:call", "tool:call", "tool:result", "tool:result",
	"step:end", "human:required", "human:required",
	"human:resumed", "tool:call", "tool:result",
	"human:resumed",
	"step:end", "agent:run:end",
}

const article = "# The title\n\none two three\nfour five\n"

// document writes the demo's input and returns its path and a folder for output.
func document(t *testing.T) (path, out string) {
	t.Helper()
	path, out = filepath.Join(t.TempDir(), "README.md"), t.TempDir()
	if err := os.WriteFile(path, []byte(article), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, out
}

// The demo from end to end, nobody asked: the crumbs of the golden transcript, and
// what it publishes.
func TestDemo_Yes(t *testing.T) {
	t.Parallel()
	path, out := document(t)
	tmp := t.TempDir()
	cmd := exec.Command("crumb", "demo", "--yes", "--json", "--input", path, "--out", out)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, stdout.String(), stderr.String())
	}
	bodies := crumbsOf(t, stdout.String())
	var types []string
	for n, body := range bodies {
		types = append(types, body["type"].(string))
		if body["seq"] != float64(n+1) {
			t.Errorf("crumb %d has the number %v", n+1, body["seq"])
		}
	}
	if !slices.Equal(types, demoCrumbs) {
		t.Fatalf("crumbs\n%v\nexpected\n%v", types, demoCrumbs)
	}
	expectDemo(t, bodies)
	run := bodies[0]["runId"].(string)
	want := "# The title\n\nPublished by the call " + run + ".2.1.\n"
	if got := read(t, filepath.Join(out, "published.md")); got != want {
		t.Errorf("published %q, expected %q", got, want)
	}
	for _, hint := range []string{"--yes answers for you two things at once: whether it may publish", filepath.Join(out, "published.md"), filepath.Join(tmp, "crumb-demo-"), "crumb dev", "crumb watch " + run} {
		if !strings.Contains(stderr.String(), hint) {
			t.Errorf("nothing says %q:\n%s", hint, stderr.String())
		}
	}
}

// expectDemo checks what the crumbs say.
func expectDemo(t *testing.T, bodies []map[string]any) {
	t.Helper()
	text := func(n int) string {
		raw, err := json.Marshal(bodies[n-1])
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for n, parts := range map[int][]string{
		1:  {`"input":{"path":"README.md"}`, `"tools":["human_headline","tool_publish","tool_read_document","tool_word_count"]`},
		2:  {`"text":"Reading README.md."`, `"inputTokens":100`, `"outputTokens":20`},
		3:  {`"toolName":"tool_read_document"`, `"effect":"pure"`, `"group":"demo"`, `"args":{"path":"README.md"}`},
		4:  {`"toolName":"tool_word_count"`, `"effect":"pure"`, `"group":"scripts"`},
		8:  {`"kind":"input"`, `"toolName":"human_headline"`, `"draft":"The title in 8 words"`, `"suspended":false`},
		9:  {`"kind":"approval"`, `"toolName":"tool_publish"`, `"suspended":true`, `"args":{"title":"The title"}`},
		10: {`"outcome":"approved"`, `"toolName":"tool_publish"`, `"iss":"local"`},
		11: {`"toolName":"tool_publish"`, `"effect":"once"`},
		12: {`"result":{"file":"published.md"}`, `"suspended":true`},
		13: {`"outcome":"answered"`, `"response":"The title in 8 words"`},
		14: {`"text":"Published."`},
		15: {`"output":"Reading README.md.Published."`, `"finishReason":"stop"`, `"steps":3`},
	} {
		for _, part := range parts {
			if !strings.Contains(text(n), part) {
				t.Errorf("crumb %d has no %s: %s", n, part, text(n))
			}
		}
	}
	both := text(5) + text(6)
	for _, part := range []string{`"result":{"words":8}`, `"deltas":3`, `"title":"The title"`, `"text":"# The title\n`} {
		if !strings.Contains(both, part) {
			t.Errorf("crumbs 5 and 6 have no %s: %s", part, both)
		}
	}
}

func crumbsOf(t *testing.T, stdout string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(stdout) {
		var body map[string]any
		if err := json.Unmarshal([]byte(line), &body); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		out = append(out, body)
	}
	return out
}

// On a terminal the demo asks before it publishes, then for the headline.
func TestTerminal_DemoAsks(t *testing.T) {
	t.Parallel()
	path, out := document(t)
	s := sit(t, []string{"TMPDIR=" + t.TempDir()}, "demo", "--input", path, "--out", out)
	s.expect("tool_publish asks for approval")
	s.expect("Approve?")
	if _, err := os.Stat(filepath.Join(out, "published.md")); err == nil {
		t.Error("published before anybody approved")
	}
	s.key("y\n")
	s.expect("approved")
	s.expect("human_headline asks")
	s.expect("Answer?")
	s.key("A headline\n")
	s.expect(`answered  "A headline"`)
	s.expect("agent:run:end")
	s.expect("published")
	s.exits(0)
	if !strings.HasPrefix(read(t, filepath.Join(out, "published.md")), "# The title\n") {
		t.Error("nothing was published")
	}
}

// Rejected, nothing is published, and the run ends well all the same.
func TestTerminal_DemoRejected(t *testing.T) {
	t.Parallel()
	path, out := document(t)
	s := sit(t, []string{"TMPDIR=" + t.TempDir()}, "demo", "--input", path, "--out", out)
	s.expect("Approve?")
	s.key("n\n")
	s.expect("rejected")
	s.expect("Answer?")
	s.key("\n")
	s.expect(`answered  ""`)
	s.exits(0)
	if _, err := os.Stat(filepath.Join(out, "published.md")); err == nil {
		t.Error("published although it was rejected")
	}
}

// answer answers a question of a run as another person.
func answer(ctx context.Context, mesh *local.Mesh, checkpoint crumbs.CheckpointID) error {
	_, err := mesh.Client.Resume(ctx, checkpoint, client.Answer{
		Outcome: crumbs.DecideAnswer, Value: "done", By: crumbs.Principal{Issuer: "local", Subject: "another"},
	})
	return err
}
