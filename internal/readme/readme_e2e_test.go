//go:build e2e

package readme_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	patience = 2 * time.Minute // for a loaded machine; nothing here takes seconds
	waiting  = 3               // exit status of a run that waits for a person

	crumbsToQuestion = 3 // agent:run:start, step:end, human:required
)

// README's first agent, from its own text: written, validated, served, run,
// approved; then the same over the nats command.
func TestE2E_FirstAgent(t *testing.T) {
	t.Parallel()
	nats := os.Getenv("NATS_CLI")
	if nats == "" {
		t.Fatal("NATS_CLI names no nats command; run `make test-all`, which installs it")
	}
	s := newShell(t)
	s.must("sh", "-c", firstAgent(t))
	mesh := s.serve()
	s.env = append(s.env, "NATS_URL="+mesh)

	const input = `{"text":"hi there"}`
	if out, status := s.run("crumb", "run", "hello", "--run-id", "from_crumb", "--input", input); status != waiting {
		t.Fatalf("crumb run: status %d, want %d:\n%s", status, waiting, out)
	}
	s.approve("from_crumb")
	if out, status := s.run("crumb", "run", "hello", "--run-id", "rejected", "--input", input); status != waiting {
		t.Fatalf("crumb run: status %d, want %d:\n%s", status, waiting, out)
	}
	s.must("crumb", "approvals", "reject", "rejected.1.0", "--reason", "too loud")
	if out := s.must("crumb", "watch", "rejected"); !strings.Contains(out, "Not done.") {
		t.Errorf("the agent does not survive a rejection:\n%s", out)
	}
	if out, status := s.run("crumb", "approvals", "approve", "rejected.1.0"); status != 1 || !strings.Contains(out, "CHECKPOINT_NOT_FOUND") || !strings.Contains(out, " by ") {
		t.Errorf("a second, other answer: status %d\n%s", status, out)
	}
	s.must("crumb", "approvals", "reject", "rejected.1.0", "--reason", "too loud") // the same again

	seen := s.subscribe(nats)
	s.must(nats, "pub", "run.request.hello", `{"runId":"from_nats","input":`+input+`}`)
	if crumbs := seen(); !strings.Contains(crumbs, `"type":"agent:run:start"`) || !strings.Contains(crumbs, `"type":"human:required"`) {
		t.Errorf("nats sub 'crumb.>' does not show how the run starts and asks:\n%s", crumbs)
	}
	s.approve("from_nats")
	for _, want := range []struct {
		in  []string
		out string
	}{
		{[]string{"micro", "ls"}, "crumbmesh"},
		{[]string{"stream", "ls"}, "CRUMBS"},
		{[]string{"req", "crumbmesh.approvals.list", `{"status":"applied"}`}, "from_nats.1.0"},
	} {
		if out := s.must(nats, want.in...); !strings.Contains(out, want.out) {
			t.Errorf("nats %s does not say %q:\n%s", strings.Join(want.in, " "), want.out, out)
		}
	}
}

// firstAgent is the shell block of README that writes the first agent, without
// the commands that build and serve.
func firstAgent(t *testing.T) string {
	t.Helper()
	scripts := blocks(part(t, document(t, "README.md"), "## A first agent"), "sh")
	if len(scripts) == 0 {
		t.Fatal("README.md has no shell block under `## A first agent`")
	}
	block := scripts[0]
	script := []string{"set -eu"}
	for line := range strings.Lines(block) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "make build"), strings.HasPrefix(line, "crumb dev"):
		case strings.HasPrefix(line, "mkdir"):
			script = append(script, strings.ReplaceAll(strings.ReplaceAll(line, "/tmp/hello/", ""), " && cd /tmp/hello", ""))
		default:
			script = append(script, line)
		}
	}
	return strings.Join(script, "\n")
}

// shell runs commands in a folder of its own, with crumb on its path.
type shell struct {
	t   *testing.T
	dir string
	env []string
}

func newShell(t *testing.T) *shell {
	t.Helper()
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "crumb"), "./cmd/crumb")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build crumb: %v\n%s", err, out)
	}
	path := bin + string(os.PathListSeparator) + os.Getenv("PATH")
	if err := os.Chmod(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	return &shell{t: t, dir: t.TempDir(), env: append(os.Environ(), "PATH="+path)}
}

func (s *shell) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if name == "crumb" { // looked up in the path of the test otherwise
		for _, e := range s.env {
			if p, ok := strings.CutPrefix(e, "PATH="); ok {
				name = filepath.Join(filepath.SplitList(p)[0], "crumb")
			}
		}
	}
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = s.dir, s.env
	return c
}

// run returns what a command printed, and its exit status.
func (s *shell) run(name string, args ...string) (string, int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	c := s.command(ctx, name, args...)
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	return string(out), c.ProcessState.ExitCode()
}

func (s *shell) must(name string, args ...string) string {
	s.t.Helper()
	out, status := s.run(name, args...)
	if status != 0 {
		s.t.Fatalf("%s %s: status %d:\n%s", name, strings.Join(args, " "), status, out)
	}
	return out
}

// serve starts `crumb dev` and returns the address of its mesh once it serves.
func (s *shell) serve() string {
	s.t.Helper()
	c := s.command(context.Background(), "crumb", "dev", ".", "--json", "--port", freePort(s.t), "--http", "127.0.0.1:"+freePort(s.t))
	out, err := c.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	var log bytes.Buffer
	c.Stderr = &log
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM) // it may be gone: Wait tells
		if err := c.Wait(); err != nil {
			s.t.Errorf("crumb dev ended with %v:\n%s", err, log.String())
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var served struct{ Server string }
	if err != nil || json.Unmarshal(line, &served) != nil || served.Server == "" {
		s.t.Fatalf("crumb dev printed %q (%v), want a document with its server", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // until it ends
	return served.Server
}

// freePort is a port that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// approve answers the run's one question and follows it to its end.
func (s *shell) approve(run string) {
	s.t.Helper()
	question := fmt.Sprintf("%s.1.0", run)
	s.must("crumb", "approvals", "approve", question)
	if out := s.must("crumb", "watch", run); !strings.Contains(out, "Done: HI THERE") {
		s.t.Errorf("crumb watch %s does not show the output:\n%s", run, out)
	}
	if list := s.must("crumb", "approvals", "list", "--status", "all"); !strings.Contains(list, question) {
		s.t.Errorf("crumb approvals list does not name %s:\n%s", question, list)
	}
}

// subscribe runs `nats sub 'crumb.>'` and returns once it listens; the function
// it returns waits for the crumbs up to the run's question.
func (s *shell) subscribe(nats string) func() string {
	s.t.Helper()
	c := s.command(s.t.Context(), nats, "sub", "crumb.>", "--count", strconv.Itoa(crumbsToQuestion))
	out, in := io.Pipe()
	c.Stdout, c.Stderr = in, in
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		err := c.Wait()
		_ = in.Close()
		done <- err
	}()
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	if err != nil {
		s.t.Fatalf("nats sub: %v", err)
	}
	if !strings.Contains(first, "Subscribing") {
		s.t.Fatalf("nats sub says %q, want that it subscribes", first)
	}
	return func() string {
		rest, err := io.ReadAll(lines)
		if err != nil {
			s.t.Fatalf("nats sub: %v", err)
		}
		if err := <-done; err != nil {
			s.t.Fatalf("nats sub: %v\n%s", err, rest)
		}
		return string(rest)
	}
}
