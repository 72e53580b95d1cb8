package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/local"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
)

// The test binary is the command, too: scripts and terminal tests run `crumb`, and
// groups of projects a worker.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"crumb": main, "saying": saying})
}

// serve runs a mesh with the agents of testdata/project in this process.
func serve(t *testing.T) *local.Mesh {
	t.Helper()
	mesh, err := local.Start(t.Context(), local.Config{Store: t.TempDir(), Port: local.AnyPort, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mesh.Stop)
	project, err := agent.Load(filepath.Join("testdata", "project"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mesh.Serve(t.Context(), project); err != nil {
		t.Fatal(err)
	}
	return mesh
}

// TestScripts runs testdata/script/*.txtar, each beside the others, against one
// mesh: run ids tell them apart.
func TestScripts(t *testing.T) {
	t.Parallel()
	mesh := serve(t)
	project, err := filepath.Abs(filepath.Join("testdata", "project"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                filepath.Join("testdata", "script"),
		RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("NATS_URL", mesh.URL())
			env.Setenv("PROJECT", project)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": expectStatus, "jsonlines": expectJSONLines,
			"publish": publish, "waitfor": waitFor, "letterid": letterID},
	})
}

// expectStatus is `status N command args…`: the command must exit with status N.
func expectStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N command args…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	got := 0
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("%s: exit status %d, expected %d", strings.Join(args[1:], " "), got, want)
	}
}

// publish is `publish SUBJECT BODY`: a message as `nats pub` sends it.
func publish(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: publish SUBJECT BODY")
	}
	nc, err := nats.Connect(ts.Getenv("NATS_URL"))
	ts.Check(err)
	defer nc.Close()
	ts.Check(nc.Publish(args[0], []byte(args[1])))
	ts.Check(nc.FlushTimeout(waitMax))
}

// waitMax bounds what a script waits for.
const waitMax = 20 * time.Second

// waitFor is `waitfor command args…`: the command is repeated until it succeeds and
// prints something.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: waitfor command args…")
	}
	for end := time.Now().Add(waitMax); time.Now().Before(end); {
		if err := ts.Exec(args[0], args[1:]...); err == nil && ts.ReadFile("stdout") != "" {
			return
		}
	}
	ts.Fatalf("%s: nothing in %s", strings.Join(args, " "), waitMax)
}

// letterID is `letterid FILE`: sets LETTER to the id of the dead letter in a file.
func letterID(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: letterid FILE")
	}
	var letter struct {
		ID uint64 `json:"id"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &letter))
	ts.Setenv("LETTER", strconv.FormatUint(letter.ID, 10))
}

// expectJSONLines is `jsonlines N`: standard output must be N lines, a JSON
// object each.
func expectJSONLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: jsonlines N")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	out := []byte(ts.ReadFile("stdout"))
	for n, line := range bytes.Split(bytes.TrimSuffix(out, []byte("\n")), []byte("\n")) {
		var document map[string]any
		if len(out) > 0 && json.Unmarshal(line, &document) != nil {
			ts.Fatalf("line %d of standard output is no JSON object: %s", n+1, line)
		}
	}
	if got := bytes.Count(out, []byte("\n")); got != want || len(out) > 0 && !bytes.HasSuffix(out, []byte("\n")) {
		ts.Fatalf("standard output has %d lines, expected %d", got, want)
	}
}

// read returns a file's text.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
