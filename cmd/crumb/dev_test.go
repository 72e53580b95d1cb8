package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// dev is a `crumb dev --json` of its own project folder.
type dev struct {
	t      *testing.T
	dir    string
	cmd    *exec.Cmd
	stdout <-chan string
	stderr <-chan string
	served served
}

// served is the document that `crumb dev --json` prints.
type served struct {
	Server string            `json:"server"`
	HTTP   string            `json:"http"`
	Store  string            `json:"store"`
	Agents map[string]string `json:"agents"`
}

// startDev starts `crumb dev` on a folder and waits until it serves.
func startDev(t *testing.T, dir string) *dev {
	t.Helper()
	d := &dev{t: t, dir: dir, cmd: exec.Command("crumb", "dev", dir, "--port", "0", "--http", "127.0.0.1:0", "--json")}
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.stdout, d.stderr = linesOf(stdout), linesOf(stderr)
	t.Cleanup(func() { _ = d.cmd.Process.Kill() }) // has ended already, unless the test failed
	d.document()
	return d
}

// linesOf makes a channel of what a process writes; it is closed at its end.
func linesOf(r io.Reader) <-chan string {
	out := make(chan string, 1000)
	go func() {
		defer close(out)
		for s := bufio.NewScanner(r); s.Scan(); {
			out <- s.Text()
		}
	}()
	return out
}

func (d *dev) next(lines <-chan string, what string) string {
	d.t.Helper()
	select {
	case line, ok := <-lines:
		if !ok {
			d.t.Fatalf("ended without %s", what)
		}
		return line
	case <-time.After(patience):
		d.t.Fatalf("no %s", what)
	}
	return ""
}

// document takes the next document of standard output.
func (d *dev) document() {
	d.t.Helper()
	line := d.next(d.stdout, "document")
	if err := json.Unmarshal([]byte(line), &d.served); err != nil {
		d.t.Fatalf("%v: %s", err, line)
	}
}

// says waits for a line of standard error with text in it.
func (d *dev) says(text string) string {
	d.t.Helper()
	for {
		if line := d.next(d.stderr, text); strings.Contains(line, text) {
			return line
		}
	}
}

// write writes a file of the project at once, as most editors do.
func (d *dev) write(name, text string) {
	d.t.Helper()
	draft := filepath.Join(d.t.TempDir(), "draft")
	err := os.WriteFile(draft, []byte(text), 0o600)
	if err == nil {
		err = os.Rename(draft, filepath.Join(d.dir, name))
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// stop stops the process as Ctrl-C does.
func (d *dev) stop() {
	d.t.Helper()
	interrupt(d.t, d.cmd)
	for range d.stdout { // until it ends
	}
	for range d.stderr {
	}
	if err := d.cmd.Wait(); err != nil {
		d.t.Errorf("after SIGINT: %v", err)
	}
}

const devAgent = "model: {provider: script, model: main}\n"

// devProject writes a project whose group `shell` has a command.
func devProject(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"crumb.yaml":                       "groups:\n  shell: {command: [sh, -c, 'echo up $CRUMB_GROUP $NATS_URL; echo key ${#CRUMB_APPROVALS_PUBKEY}; exec sleep 600']}\n",
		"agents/greeter/agent.yaml":        devAgent,
		"agents/greeter/scripts/main.yaml": "turns: [{text: first}]\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// greet runs the agent and returns its output.
func greet(t *testing.T, server string) string {
	t.Helper()
	mesh, err := client.Connect(t.Context(), client.Config{Server: server})
	if err != nil {
		t.Fatal(err)
	}
	defer mesh.Close()
	end, err := mesh.Run(t.Context(), client.Request{Agent: "greeter"})
	if err != nil || end.Status != client.Completed {
		t.Fatalf("%+v, %v", end, err)
	}
	return string(end.Output)
}

// `crumb dev` serves the folder, keeps the group's command running, follows good
// edits, and keeps what served before when an edit is faulty.
func TestDev_ServesReloadsAndDrains(t *testing.T) {
	t.Parallel()
	d := startDev(t, devProject(t))
	if line := d.says("[shell] up"); !strings.Contains(line, "up shell "+d.served.Server) {
		t.Errorf("the command's environment: %s", line)
	}
	d.says("[shell] key 43") // an Ed25519 public key in base64url
	if got := greet(t, d.served.Server); got != `"first"` {
		t.Errorf("output %s", got)
	}
	for path, want := range map[string]string{"/livez": "ok\n", "/readyz": "ok\n"} {
		if got := get(t, d.served.HTTP+path); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}

	first := d.served.Agents["greeter"]
	d.write("agents/greeter/agent.yaml", devAgent+"stepss: {max: 2}\noutput: {format: txt}\n")
	d.says("agents/greeter/agent.yaml:2:1: INVALID_CONFIG")
	d.says("agents/greeter/agent.yaml:3:")
	d.says("what served before goes on")
	if got := greet(t, d.served.Server); got != `"first"` {
		t.Errorf("after a faulty edit: %s", got)
	}

	d.write("agents/greeter/agent.yaml", devAgent)
	d.document()
	if now := d.served.Agents["greeter"]; now != first {
		t.Errorf("mended: revision %s, expected %s", now, first)
	}
	d.write("agents/greeter/scripts/main.yaml", "turns: [{text: second}]\n")
	d.document()
	if now := d.served.Agents["greeter"]; now == first {
		t.Error("the edit has the same revision")
	}
	if got := greet(t, d.served.Server); got != `"second"` {
		t.Errorf("after an edit: %s", got)
	}
	d.stop()
	if _, err := os.Stat(filepath.Join(d.dir, ".crumbmesh", "approvals.key")); err != nil {
		t.Errorf("no key in the store: %v", err)
	}
}

// What a mesh stored is there when it is started again on the same store: a run
// that waits goes on.
func TestDev_RunsSurviveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "project"))); err != nil {
		t.Fatal(err)
	}
	d := startDev(t, dir)
	mesh, err := client.Connect(t.Context(), client.Config{Server: d.served.Server})
	if err != nil {
		t.Fatal(err)
	}
	end, err := mesh.Run(t.Context(), client.Request{Agent: "payer", RunID: "survivor"})
	mesh.Close()
	if err != nil || end.Status != client.Suspended {
		t.Fatalf("%+v, %v", end, err)
	}
	if err := d.cmd.Process.Kill(); err != nil { // kill -9
		t.Fatal(err)
	}
	_ = d.cmd.Wait() // says that it was killed

	d = startDev(t, dir)
	if mesh, err = client.Connect(t.Context(), client.Config{Server: d.served.Server}); err != nil {
		t.Fatal(err)
	}
	defer mesh.Close()
	approve := client.Approve(end.Checkpoints[0], crumbs.Principal{Issuer: "local", Subject: "ann"})
	if _, err := mesh.Resume(t.Context(), end.Checkpoints[0].CheckpointID, approve); err != nil {
		t.Fatal(err)
	}
	end, err = mesh.Wait(t.Context(), "survivor", client.After(end.Seq))
	if err != nil || end.Status != client.Completed || string(end.Output) != `"Done: {\"cents\":250}."` {
		t.Errorf("%+v, %v", end, err)
	}
	d.stop()
}

// A port that is taken is said, and nothing had begun that would have to stop.
func TestDev_TakenAddressIsAUsageError(t *testing.T) {
	t.Parallel()
	d := startDev(t, devProject(t))
	serves := func(out []byte) bool { return strings.Contains(string(out), "stopping") }
	out, err := exec.Command("crumb", "dev", devProject(t), "--port", "0", "--http", strings.TrimPrefix(d.served.HTTP, "http://")).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), "--http") || serves(out) {
		t.Errorf("%v: %s", err, out)
	}
	port := d.served.Server[strings.LastIndex(d.served.Server, ":")+1:]
	out, err = exec.Command("crumb", "dev", devProject(t), "--port", port, "--http", "127.0.0.1:0").CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), "--port") || serves(out) {
		t.Errorf("%v: %s", err, out)
	}
	d.stop()
}

// The tools of an agent that is gone are listed no more; those of others are.
func TestDev_ToolsOfARemovedAgentAreTakenBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "project"))); err != nil {
		t.Fatal(err)
	}
	d := startDev(t, dir)
	mesh, err := client.Connect(t.Context(), client.Config{Server: d.served.Server})
	if err != nil {
		t.Fatal(err)
	}
	defer mesh.Close()
	listed := func() (names []string) {
		list, err := mesh.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range list.Tools {
			names = append(names, v.Handler)
		}
		return names
	}
	if got := listed(); !slices.Equal(got, []string{"payer/pay", "payer/steal"}) {
		t.Fatalf("tools %v", got)
	}
	pay := read(t, filepath.Join(dir, "agents", "payer", "tools", "pay.yaml"))
	for name, text := range map[string]string{"agents/heir/agent.yaml": devAgent, "agents/heir/tools/pay.yaml": pay, "agents/heir/scripts/main.yaml": "turns: [{text: hi}]\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		d.write(name, text)
	}
	if err := os.RemoveAll(filepath.Join(dir, "agents", "payer")); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); !slices.Equal(listed(), []string{"heir/pay"}); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("tools %v", listed())
		}
	}
	d.stop()
}

// Two meshes on one store would lose runs: the second is refused, names the
// first, and the store is free as soon as that is killed.
func TestDev_OneStoreOneMesh(t *testing.T) {
	t.Parallel()
	dir := devProject(t)
	d := startDev(t, dir)
	// Its addresses are taken, too, but other ones would not help.
	port := d.served.Server[strings.LastIndex(d.served.Server, ":")+1:]
	out, err := exec.Command("crumb", "dev", dir, "--port", port, "--http", strings.TrimPrefix(d.served.HTTP, "http://")).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 {
		t.Fatalf("a second mesh on the store: %v: %s", err, out)
	}
	for _, want := range []string{"INVALID_CONFIG", "is in use by process " + strconv.Itoa(d.cmd.Process.Pid), "--store"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in: %s", want, out)
		}
	}
	if got := greet(t, d.served.Server); got != `"first"` {
		t.Errorf("the first mesh: output %s", got)
	}
	if err := d.cmd.Process.Kill(); err != nil { // kill -9
		t.Fatal(err)
	}
	_ = d.cmd.Wait() // says that it was killed
	startDev(t, dir).stop()
}

func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reply.Body.Close() }() // only read
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
