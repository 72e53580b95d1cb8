package local

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// othersMax is how many tools of another agent share the group: what a run keeps does
// not depend on how large the project is.
const othersMax = 100

// says is a command that notes what it is.
func says(log, what, answer string) string {
	return fmt.Sprintf("[sh, -c, 'cat >/dev/null; echo %s >> %s; echo %s']", what, log, answer)
}

// pinnedProject writes a project in which all that runs says which version it is; more
// stands in front of the agent's hooks.
func pinnedProject(t *testing.T, dir, log, version, more string) {
	t.Helper()
	files := map[string]string{
		"crumb.yaml": "hooks: {afterRun: {exec: " + says(log, "project-"+version, "") + "}}\n",
		"agents/payer/agent.yaml": "model: {provider: script, model: main}\npermissions: {ask: [\"tool:*\"]}\n" +
			"output: {format: {custom: lines, exec: " + says(log, "parser-"+version, `"\""parsed"\""`) + "}}\n" +
			"hooks: {afterRun: [" + more + "{exec: " + says(log, "agent-"+version, "") + "}]}\n",
		"agents/payer/tools/pay.yaml": "description: Pays.\nexec: " + says(log, "tool-"+version, "1") + "\n" +
			"hooks: {afterRun: {exec: " + says(log, "hook-"+version, "") + "}}\n",
		"agents/payer/scripts/main.yaml":  "turns: [{toolCalls: [{name: tool_pay, args: {}}]}, {text: paid}]\n",
		"agents/writer/agent.yaml":        "model: {provider: script, model: main}\n",
		"agents/writer/scripts/main.yaml": "turns: [{text: hello}]\n",
	}
	for i := range othersMax {
		files[fmt.Sprintf("agents/writer/tools/other_%d.yaml", i)] = "description: Does.\nexec: [\"true\"]\n"
	}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// serving starts a mesh on a store and serves a folder.
func serving(t *testing.T, store, dir string) *Mesh {
	t.Helper()
	m, err := Start(t.Context(), Config{Store: store, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, m, dir)
	return m
}

func serve(t *testing.T, m *Mesh, dir string) {
	t.Helper()
	p, err := agent.Load(dir)
	if err == nil {
		_, err = m.Serve(t.Context(), p)
	}
	if err != nil {
		m.Stop()
		t.Fatal(err)
	}
}

// What is served is what was loaded, also when the files are others by then: a run that
// begins with it finds it.
func TestServe_WhatWasLoaded_F156(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), filepath.Join(t.TempDir(), "log")
	pinnedProject(t, dir, log, "one", "")
	m := serving(t, t.TempDir(), dir)
	defer m.Stop()
	pinnedProject(t, dir, log, "two", "")
	p, err := agent.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	pinnedProject(t, dir, log, "three", "")
	if _, err := m.Serve(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	end, err := m.Client.Run(t.Context(), client.Request{Agent: "payer", RunID: "loaded"})
	if err != nil || end.Status != client.Suspended {
		t.Fatalf("%+v, %v", end, err)
	}
	goesOn(t, m, end, log, "two")
}

// goesOn approves the call that a run waits for, and expects all of a version to have run.
func goesOn(t *testing.T, m *Mesh, end client.Outcome, log, version string) {
	t.Helper()
	approve := client.Approve(end.Checkpoints[0], crumbs.Principal{Issuer: "local", Subject: "ann"})
	if _, err := m.Client.Resume(t.Context(), end.Checkpoints[0].CheckpointID, approve); err != nil {
		t.Fatal(err)
	}
	end, err := m.Client.Wait(t.Context(), end.Run, client.After(end.Seq))
	if err != nil || end.Status != client.Completed || string(end.Output) != `"parsed"` {
		t.Fatalf("%+v, %v", end, err)
	}
	ran, err := os.ReadFile(log)
	want := strings.ReplaceAll("tool-V hook-V project-V parser-V agent-V project-V", "V", version)
	if got := strings.Join(strings.Fields(string(ran)), " "); err != nil || got != want {
		t.Errorf("ran %s (%v), expected %s", got, err, want)
	}
}

// A run that waits for its approval goes on with the tool, the hooks and the parser that
// it began with, whatever becomes of the files, and of the process.
func TestServe_RunsKeepWhatTheyBeganWith_F156(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		versions []string // of the files after the run began
		more     string   // in front of the agent's hooks
		anew     bool     // the process is started anew
	}{
		"edited":                  {versions: []string{"two"}},
		"edited twice":            {versions: []string{"two", "three"}},
		"edited and taken back":   {versions: []string{"two", "one"}},
		"a hook in front":         {versions: []string{"one"}, more: "{exec: ['false']}, "},
		"edited and begun anew":   {versions: []string{"two"}, anew: true},
		"edited while it was off": {anew: true, versions: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, store := t.TempDir(), t.TempDir()
			log := filepath.Join(t.TempDir(), "log")
			pinnedProject(t, dir, log, "one", "")
			m := serving(t, store, dir)
			end, err := m.Client.Run(t.Context(), client.Request{Agent: "payer", RunID: "pinned"})
			if err != nil || end.Status != client.Suspended {
				m.Stop()
				t.Fatalf("%+v, %v", end, err)
			}
			for _, version := range tc.versions {
				pinnedProject(t, dir, log, version, tc.more)
				serve(t, m, dir)
			}
			if tc.anew {
				m.Stop()
				pinnedProject(t, dir, log, "last", tc.more)
				m = serving(t, store, dir)
			}
			defer m.Stop()
			goesOn(t, m, end, log, "one")
		})
	}
}
