package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

// saying is a worker whose tool `say` answers its first argument: what a group's
// command starts in these tests.
func saying() {
	text := os.Args[1]
	said := tool.Define("say", "Says it.", func(tool.Context, struct{}) (string, error) { return text, nil }, tool.Effect(crumbs.EffectPure))
	if err := worker.Serve(context.Background(), said); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// unpacked writes the files of an archive.
func unpacked(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// connected is a client of the mesh.
func (d *dev) connected() *client.Client {
	d.t.Helper()
	c, err := client.Connect(d.t.Context(), client.Config{Server: d.served.Server})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(c.Close)
	return c
}

// run runs an agent until it ends or waits for a person.
func (d *dev) run(c *client.Client, agent crumbs.AgentID, id crumbs.RunID) client.Outcome {
	d.t.Helper()
	end, err := c.Run(d.t.Context(), client.Request{Agent: agent, RunID: id})
	if err != nil {
		d.t.Fatal(err)
	}
	return end
}

// answer answers the question that a run waits with and returns the output.
func (d *dev) answer(c *client.Client, suspended client.Outcome) string {
	d.t.Helper()
	q := suspended.Checkpoints[0]
	by := crumbs.Principal{Issuer: "local", Subject: "ann"}
	if _, err := c.Resume(d.t.Context(), q.CheckpointID, client.Reply(q, by, "go on")); err != nil {
		d.t.Fatal(err)
	}
	end, err := c.Wait(d.t.Context(), q.RunID, client.After(suspended.Seq))
	if err != nil || end.Status != client.Completed {
		d.t.Fatalf("%+v, %v", end, err)
	}
	return string(end.Output)
}

// asker asks a person, then calls a command, then says what that answered.
const asker = `
-- agents/asker/agent.yaml --
model: {provider: script, model: main}
-- agents/asker/scripts/main.yaml --
turns:
  - toolCalls: [{name: human_ask}]
  - toolCalls: [{name: tool_say}]
  - text: "first {{ .results.tool_say }}"
-- agents/asker/tools/ask.yaml --
description: Asks.
human: {}
-- agents/asker/tools/say.yaml --
description: Says.
exec: [sh, say.sh, one]
-- agents/asker/tools/say.sh --
echo "\"$1\""
`

// A run that waits for a person goes on as it began, whatever is edited meanwhile:
// its script, its tool, even when that is gone. A new run takes the edit.
func TestDev_F156_RunsInFlightKeepTheirRevision(t *testing.T) {
	t.Parallel()
	d := startDev(t, unpacked(t, asker))
	c := d.connected()
	old, older := d.run(c, "asker", "old"), d.run(c, "asker", "older")

	d.write("agents/asker/tools/say.yaml", "description: Says more.\nexec: [sh, say.sh, two]\n")
	d.document()
	d.write("agents/asker/scripts/main.yaml", "turns: [{toolCalls: [{name: human_ask}]}, {toolCalls: [{name: tool_say}]}, {text: \"second {{ .results.tool_say }}\"}]\n")
	d.document()
	if got := d.answer(c, old); got != `"first one"` {
		t.Errorf("the run from before the edit: %s", got)
	}
	fresh := d.run(c, "asker", "fresh")
	if got := d.answer(c, d.run(c, "asker", "new")); got != `"second two"` {
		t.Errorf("a run after the edit: %s", got)
	}

	d.write("agents/asker/agent.yaml", "model: {provider: script, model: main}\npermissions: {deny: [\"tool:say\"]}\n")
	d.document()
	if got := d.answer(c, older); got != `"first one"` {
		t.Errorf("the tool is denied by now: %s", got)
	}
	if err := os.Remove(filepath.Join(d.dir, "agents/asker/tools/say.yaml")); err != nil {
		t.Fatal(err)
	}
	d.write("agents/asker/agent.yaml", "model: {provider: script, model: main}\n")
	d.document()
	if got := d.answer(c, fresh); got != `"second two"` {
		t.Errorf("the tool is deleted by now: %s", got)
	}
	d.stop()
}

// The script of a command is no part of a revision: the next call runs it as it is.
func TestDev_ScriptsOfToolsRunAsTheyAre(t *testing.T) {
	t.Parallel()
	d := startDev(t, unpacked(t, asker))
	c := d.connected()
	waits := d.run(c, "asker", "run")
	d.write("agents/asker/tools/say.sh", `echo "\"mended $1\""`)
	if got := d.answer(c, waits); got != `"first mended one"` {
		t.Error(got)
	}
	d.stop()
}

// Agents come and go with their folders; a file that is half written is told of and
// counts once it is whole.
func TestDev_FoldersComeAndGo(t *testing.T) {
	t.Parallel()
	d := startDev(t, unpacked(t, asker))
	copied := filepath.Join(d.dir, "agents", "copy")
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(d.dir, "agents", "asker"))); err != nil {
		t.Fatal(err)
	}
	d.until("the copied agent", func() bool { return d.served.Agents["copy"] != "" })

	half := filepath.Join(copied, "agent.yaml")
	if err := os.WriteFile(half, []byte("model: {provider: scr"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.says("agents/copy/agent.yaml:1:")
	d.says("what served before goes on")
	if err := os.WriteFile(half, []byte("model: {provider: script, model: main}\nsteps: {max: 5}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.document()

	if err := os.RemoveAll(copied); err != nil {
		t.Fatal(err)
	}
	d.until("the agent is gone", func() bool { return d.served.Agents["copy"] == "" })
	d.stop()
}

// until takes documents until one fits: what is written in steps may come in some.
func (d *dev) until(what string, fits func() bool) {
	d.t.Helper()
	for !fits() {
		d.served.Agents = nil
		d.document()
	}
	d.t.Log(what)
}

// caller calls the tool of a worker that a command starts.
const caller = `
-- crumb.yaml --
groups:
  voice:
    command: [sh, src/start.sh]
    watch: [src]
-- agents/caller/agent.yaml --
model: {provider: script, model: main}
-- agents/caller/scripts/main.yaml --
turns:
  - toolCalls: [{name: tool_say}]
  - text: "{{ .results.tool_say }}"
-- agents/caller/tools/say.yaml --
worker: {group: voice, tool: say}
-- src/start.sh --
exec saying one
-- notes.md --
`

// settles runs the agent until it says want: the old worker may still take a call
// while it is told to drain.
func (d *dev) settles(c *client.Client, want string) {
	d.t.Helper()
	got := ""
	for range 100 {
		if got = string(d.run(c, "caller", "").Output); got == want {
			return
		}
	}
	d.t.Fatalf("output %s, want %s", got, want)
}

// A command starts anew when what it is made of changes; one that does not start
// leaves the one before it serving, and says why.
func TestDev_CommandsFollowTheirSources(t *testing.T) {
	t.Parallel()
	d := startDev(t, unpacked(t, caller))
	c := d.connected()
	if got := d.run(c, "caller", "at_once"); string(got.Output) != `"one"` { // it waits for the worker
		t.Errorf("%+v", got)
	}
	d.says("worker  [voice] up")

	d.write("src/start.sh", "exec saying two\n")
	d.says("[voice] its files changed")
	d.says("[voice] up with the change")
	d.settles(c, `"two"`)

	d.write("src/start.sh", "echo 'start.sh:1: no such thing' >&2; exit 3\n")
	d.says("[voice] start.sh:1: no such thing")
	d.says("[voice] the change does not start: it ended with exit status 3; what served before goes on")
	if got := d.run(c, "caller", "after_a_bad_change"); string(got.Output) != `"two"` {
		t.Errorf("%+v", got)
	}

	d.write("src/start.sh", "exec saying three\n")
	d.says("[voice] up with the change")
	d.settles(c, `"three"`)
	d.stop()
}
