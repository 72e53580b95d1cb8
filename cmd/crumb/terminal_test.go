package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// session is a `crumb` whose three streams are one terminal.
type session struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File
	done chan struct{}

	mu     sync.Mutex
	screen bytes.Buffer
	wrote  chan struct{} // told after each piece of output
	seen   int           // of screen, by expect
}

// sit starts `crumb args…` on a terminal.
func sit(t *testing.T, env []string, args ...string) *session {
	t.Helper()
	cmd := exec.Command("crumb", args...)
	cmd.Env, cmd.Dir = append(os.Environ(), env...), t.TempDir()
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 400})
	if err != nil {
		t.Fatal(err)
	}
	s := &session{t: t, cmd: cmd, tty: tty, done: make(chan struct{}), wrote: make(chan struct{}, 1)}
	go s.read()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // has ended already, unless the test failed
		<-s.done
		_ = tty.Close()
	})
	return s
}

func (s *session) read() {
	defer close(s.done)
	piece := make([]byte, 4096)
	for {
		n, err := s.tty.Read(piece)
		s.mu.Lock()
		s.screen.Write(piece[:n])
		s.mu.Unlock()
		select {
		case s.wrote <- struct{}{}:
		default:
		}
		if err != nil { // EIO: the last process left the terminal
			return
		}
	}
}

func (s *session) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.screen.String()
}

// expect waits until text stands on the screen behind what was expected before.
func (s *session) expect(text string) {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		if at := strings.Index(s.text()[s.seen:], text); at >= 0 {
			s.seen += at + len(text)
			return
		}
		select {
		case <-s.wrote:
		case <-s.done:
			if !strings.Contains(s.text()[s.seen:], text) {
				s.t.Fatalf("ended without %q; the screen:\n%s", text, s.text())
			}
		case <-deadline:
			s.t.Fatalf("no %q; the screen:\n%s", text, s.text())
		}
	}
}

// key types text.
func (s *session) key(text string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// ctrlD is the end of input on a terminal.
const ctrlD = "\x04"

// exits waits for the end and checks the status.
func (s *session) exits(status int) {
	s.t.Helper()
	timer := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	err := s.cmd.Wait()
	var exit *exec.ExitError
	got := 0
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		s.t.Fatal(err)
	}
	if got != status {
		s.t.Errorf("exit status %d, expected %d; the screen:\n%s", got, status, s.text())
	}
}

// On a terminal `crumb run` asks; an Enter or another word too much approves
// nothing, and neither does a bare yes with more behind it.
func TestTerminal_RunAsksForApproval(t *testing.T) {
	t.Parallel()
	mesh := serve(t)
	server := []string{"NATS_URL=" + mesh.URL()}

	s := sit(t, server, "run", "payer", "--run-id", "asked")
	s.expect("tool_pay asks for approval")
	s.expect(`"cents": 250`)
	s.expect("Approve?")
	for _, typed := range []string{"\n", "ok\n", "yes but\n"} {
		s.key(typed)
		s.expect("Type y to approve")
	}
	if row, err := mesh.Client.Approval(t.Context(), "asked.1.0"); err != nil || row.Status != decision.StatusOpen {
		t.Errorf("before a yes: %+v, %v", row.Status, err)
	}
	s.key("y\n")
	s.expect("approved")
	s.expect("tool:call")
	s.expect(`Done: {"cents":250}.`)
	s.exits(0)
	if !strings.Contains(s.text(), "\x1b[") {
		t.Error("no colours on a terminal")
	}

	s = sit(t, append(server, "NO_COLOR=1"), "run", "payer", "--run-id", "refused")
	s.expect("Approve?")
	s.key("n too much\n")
	s.expect("rejected")
	s.exits(0)
	if strings.Contains(s.text(), "\x1b[") {
		t.Errorf("colours although NO_COLOR is set:\n%q", s.text())
	}
	view, err := mesh.Client.Approval(t.Context(), "refused.1.0")
	if err != nil || view.Outcome != crumbs.ResumedRejected || view.Reason != "too much" {
		t.Errorf("%+v, %v", view, err)
	}

	// Ctrl-D leaves the question to another time.
	s = sit(t, server, "run", "payer", "--run-id", "later")
	s.expect("Approve?")
	s.key(ctrlD)
	s.expect("later waits for a person")
	s.exits(3)

	// Ctrl-C cancels the run, and its end is shown.
	s = sit(t, server, "run", "payer", "--run-id", "interrupted")
	s.expect("Approve?")
	s.key("\x03")
	s.expect("cancelling run interrupted")
	s.expect("withdrawn")
	s.expect("RUN_CANCELLED")
	s.exits(1)
	if run, err := mesh.Client.RunView(t.Context(), "interrupted"); err != nil || run.Status != "cancelled" {
		t.Errorf("%+v, %v", run.Status, err)
	}

	// Whoever only watches leaves it alone.
	if _, err := mesh.Client.Start(t.Context(), client.Request{Agent: "payer", RunID: "watched"}); err != nil {
		t.Fatal(err)
	}
	s = sit(t, server, "watch", "watched")
	s.expect("human:required")
	s.key("\x03")
	s.exits(1)
	if run, err := mesh.Client.RunView(t.Context(), "watched"); err != nil || run.Status != "suspended" {
		t.Errorf("%+v, %v", run.Status, err)
	}
}

// A question that another answers while it stands on the screen goes away, and
// what was being typed for it answers nothing else.
func TestTerminal_PromptIsWithdrawn(t *testing.T) {
	t.Parallel()
	mesh := serve(t)
	s := sit(t, []string{"NATS_URL=" + mesh.URL()}, "run", "asker", "--run-id", "elsewhere")
	s.expect("human_question asks")
	s.expect("Answer?")
	s.key("half an ans")
	if err := answer(t.Context(), mesh, "elsewhere.1.0"); err != nil {
		t.Fatal(err)
	}
	s.expect("That question is settled.")
	s.expect("agent:run:end")
	s.exits(0)
}

// F167: only where a person can read and type is anything asked. Else nothing is
// approved, and the status says so.
func TestTerminal_F167_OnlyATerminalIsAsked(t *testing.T) {
	t.Parallel()
	mesh := serve(t)
	for name, stdin := range map[string]func(*testing.T) *os.File{
		"dev_null": func(t *testing.T) *os.File { return open(t, os.DevNull) },
		"pipe":     pipeWithYes,
		"file": func(t *testing.T) *os.File {
			path := filepath.Join(t.TempDir(), "yes")
			if err := os.WriteFile(path, []byte("y\ny\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return open(t, path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("crumb", "run", "payer", "--run-id", "f167_"+name)
			cmd.Env, cmd.Stdin = append(os.Environ(), "NATS_URL="+mesh.URL()), stdin(t)
			expectSuspended(t, cmd)
			cmd = exec.Command("crumb", "demo", "--input", "main_test.go")
			cmd.Env, cmd.Stdin = append(os.Environ(), "TMPDIR="+t.TempDir()), stdin(t)
			expectDemoRefused(t, cmd)
		})
	}
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		cmd := exec.Command("sh", "-c", "exec crumb run payer --run-id f167_closed <&-")
		cmd.Env = append(os.Environ(), "NATS_URL="+mesh.URL())
		expectSuspended(t, cmd)
		cmd = exec.Command("sh", "-c", "exec crumb demo --input main_test.go <&-")
		cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
		expectDemoRefused(t, cmd)
	})
	t.Run("terminal_without_prompts", func(t *testing.T) { // standard error is a file
		t.Parallel()
		controller, tty, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = errors.Join(tty.Close(), controller.Close()) }() // nothing was written
		cmd := exec.Command("crumb", "run", "payer", "--run-id", "f167_stderr")
		cmd.Env, cmd.Stdin = append(os.Environ(), "NATS_URL="+mesh.URL()), tty
		expectSuspended(t, cmd)
	})
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // only read
	return f
}

func pipeWithYes(t *testing.T) *os.File {
	t.Helper()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(to, "y\ny\n"); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = from.Close() }) // only read
	return from
}

// expectSuspended runs a `crumb run` that must end with status 3, without a
// prompt, and with a hint.
func expectSuspended(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("%v, expected status 3\n%s", err, stderr.String())
	}
	if stdout.Len() > 0 || strings.Contains(stderr.String(), "Approve?") || strings.Contains(stderr.String(), "tool:call") {
		t.Errorf("asked, or run:\n%s%s", stdout.String(), stderr.String())
	}
	if !strings.Contains(stderr.String(), "crumb approvals approve") {
		t.Errorf("no hint:\n%s", stderr.String())
	}
}

// expectDemoRefused runs a `crumb demo` that must refuse to start and leave
// nothing behind.
func expectDemoRefused(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "crumb demo --yes") {
		t.Errorf("%v: %s", err, out)
	}
	tmp := ""
	for _, e := range cmd.Env {
		if dir, ok := strings.CutPrefix(e, "TMPDIR="); ok {
			tmp = dir
		}
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}

// interrupt asks a process to stop as Ctrl-C does.
func interrupt(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
}
