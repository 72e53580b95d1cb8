//go:build e2e

package compose_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
)

// serviceNames are the services that stay, in an order to start them.
var serviceNames = []string{"approvals", "orchestrator", "modelgw", "toolexec-scripts", "toolexec-demo"}

// waiting is the exit status of a run that waits for a person.
const waiting = 3

var publicKey = regexp.MustCompile(`CRUMB_APPROVALS_PUBKEY"?[=:]"?([A-Za-z0-9_-]{43})`)

// crumb runs the command line on this machine, against the first server.
func (s *stack) crumb(args ...string) (string, int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, s.binaries["crumbmesh"], args...)
	c.Env = append(os.Environ(), "NATS_URL=nats://"+s.ports["nats-1:4222"])
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); c.ProcessState == nil {
		s.t.Fatalf("crumb %s: %v", strings.Join(args, " "), err)
	}
	if c.ProcessState.ExitCode() != 0 {
		return out.String() + errs.String(), c.ProcessState.ExitCode()
	}
	return out.String(), 0
}

// insist runs a command that has to succeed, again while the mesh says that it is
// not available: streams have no leader for seconds when a server dies. Nothing
// that is done here does harm twice.
func (s *stack) insist(args ...string) string {
	s.t.Helper()
	var out string
	s.await(s.started["nats-1"][0], "crumb "+strings.Join(args, " ")+" succeeds", func(context.Context) error {
		var status int
		out, status = s.crumb(args...)
		if status != 0 && !strings.Contains(out, "UNAVAILABLE") {
			s.t.Fatalf("crumb %s: status %d\n%s", strings.Join(args, " "), status, out)
		}
		if status != 0 {
			return errors.New(out)
		}
		return nil
	})
	return out
}

// question is a line of `crumb approvals list --json`.
type question struct {
	CheckpointID, RunID string
	Checkpoint          struct{ Kind string }
}

// answer waits for the question that a run asks next, and answers it.
func (s *stack) answer(run string) {
	s.t.Helper()
	var q question
	s.await(s.started["nats-1"][0], "run "+run+" asks something", func(context.Context) error {
		for line := range strings.Lines(s.insist("approvals", "list", "--json")) {
			var one question
			if err := json.Unmarshal([]byte(line), &one); err != nil {
				s.t.Fatalf("approvals list: %v\n%s", err, line)
			}
			if one.RunID == run {
				q = one
				return nil
			}
		}
		return errors.New("no question of it is open")
	})
	if q.Checkpoint.Kind == "input" {
		s.insist("approvals", "answer", q.CheckpointID, `"A mesh of crumbs"`)
	} else {
		s.insist("approvals", "approve", q.CheckpointID)
	}
}

// begin starts the whole mesh as env.example says, the signing key first, and
// applies the project.
func (s *stack) begin(scale map[string]int) *types.Project {
	s.t.Helper()
	s.up(project(s.t), "approvals", scale["approvals"])
	s.healthy("approvals")
	key := publicKey.FindStringSubmatch(s.line("approvals", "CRUMB_APPROVALS_PUBKEY"))
	if key == nil {
		s.t.Fatalf("approvals says no public key:\n%s", s.started["approvals"][0].said())
	}
	p := project(s.t, "CRUMB_APPROVALS_PUBKEY="+key[1])
	for _, name := range serviceNames {
		if name != "approvals" {
			s.up(p, name, scale[name])
		}
	}
	for _, name := range []string{"orchestrator", "modelgw", "toolexec-scripts", "toolexec-demo"} {
		s.healthy(name)
	}
	s.up(p, "apply", 1)
	s.completed(p, "apply")
	return p
}

// ask starts a run and wants it to wait for a person.
func (s *stack) ask(run string) {
	s.t.Helper()
	if out, status := s.crumb("run", "publisher", "--run-id", run, "--input", `{"path":"README.md"}`); status != waiting {
		s.t.Fatalf("crumb run: status %d, want %d, a question to a person\n%s", status, waiting, out)
	}
}

// finish answers what a run asks, a headline and an approval, and wants it to
// complete and to have published.
func (s *stack) finish(run string) {
	s.t.Helper()
	s.answer(run)
	s.answer(run)
	s.insist("watch", run)
	if _, err := os.Stat(s.volume("published") + "/published.md"); err != nil {
		s.t.Errorf("the run completed and published nothing: %v", err)
	}
}

// The file's commands make a mesh that works, scaled: a run goes through it, over
// the death of a NATS server; every process drains when it is told to stop.
func TestE2E_Compose_RunsTheExample(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	p := s.begin(map[string]int{"approvals": 2, "orchestrator": 2, "modelgw": 1, "toolexec-scripts": 3, "toolexec-demo": 2})
	s.ask("composed")
	if err := s.started["nats-2"][0].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.started["nats-2"][0].ended
	s.finish("composed")
	s.down(p, serviceNames...)
}

// docs/operations.md's own commands back a mesh up and bring it back on empty
// servers: one run that waited for a person goes on, another is given up. A restore
// that was cut off before is no hindrance.
func TestE2E_Compose_RestoresABackup(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	once := map[string]int{"approvals": 1, "orchestrator": 1, "modelgw": 1, "toolexec-scripts": 1, "toolexec-demo": 1}
	p := s.begin(once)
	s.ask("kept")
	s.ask("given_up")

	s.down(p, serviceNames...)
	s.follow(operations(t, "# backup:"), nil)
	s.down(p, nodes...)
	s.lose(nodes...)
	s.lose(serviceNames...)
	for _, node := range nodes {
		s.up(p, node, 1)
	}
	for _, node := range nodes {
		s.healthy(node)
	}
	start := func(names ...string) func() {
		return func() {
			for _, name := range names {
				s.started[name] = []*container{s.start(p.Services[name], 0)} // what they wait for is there: init is a line of its own
			}
			s.healthy(names[0])
		}
	}
	s.giveUp("CRUMBS", "KV_runs")
	said := s.follow(operations(t, "# restore:"), map[string]func(){
		"# now start orchestrator and approvals": start("orchestrator", "approvals"),
		"# now start modelgw and the workers":    start("modelgw", "toolexec-scripts", "toolexec-demo"),
	})
	for _, run := range []string{"kept", "given_up"} {
		if !strings.Contains(said, `"`+run+`"`) {
			t.Errorf("run %s was under way and is not listed:\n%s", run, said)
		}
	}
	s.finish("kept")
	if out, status := s.crumb("watch", "given_up"); status != 1 || !strings.Contains(out, "RUN_CANCELLED") {
		t.Errorf("the run that was given up: status %d\n%s", status, out)
	}
}

// operations is the shell block of docs/operations.md that begins with a comment.
func operations(t *testing.T, comment string) []string {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "```sh\n"+comment)
	block, _, ended := strings.Cut(rest, "\n```")
	if !ok || !ended {
		t.Fatalf("docs/operations.md has no shell block that begins with %q", comment)
	}
	return strings.Split(comment+block, "\n")
}

// follow runs the lines of a block one after another, RUN being the run that is
// given up, and does what its comments say. It returns what was printed.
func (s *stack) follow(lines []string, comments map[string]func()) string {
	s.t.Helper()
	var all strings.Builder
	for _, line := range lines {
		for comment, do := range comments {
			if strings.HasPrefix(line, comment) {
				do()
				delete(comments, comment)
			}
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		out, err := s.shell(strings.ReplaceAll(line, "RUN ", "given_up "))
		if err != nil {
			s.t.Fatalf("docs/operations.md: %s: %v\n%s", line, err, out)
		}
		all.WriteString(out)
	}
	for comment := range comments {
		s.t.Fatalf("docs/operations.md does not say %q", comment)
	}
	return all.String()
}

// shell runs a line with crumb and nats of this machine, against the first server.
func (s *stack) shell(line string) (string, error) {
	s.t.Helper()
	bin := s.volume("bin")
	for name, program := range map[string]string{"crumb": s.binaries["crumbmesh"], "nats": os.Getenv("NATS_CLI")} {
		if program == "" {
			s.t.Fatal("NATS_CLI names no nats command; run `make test-all`, which installs it")
		}
		if err := os.Symlink(program, bin+"/"+name); err != nil && !errors.Is(err, fs.ErrExist) {
			s.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", line)
	c.Dir = s.dir
	c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "NATS_URL=nats://"+s.ports["nats-1:4222"])
	out, err := c.CombinedOutput()
	return string(out), err
}

// giveUp begins to restore streams, sends nothing of them, and waits until the servers
// have what that leaves: the streams, empty.
func (s *stack) giveUp(streams ...string) {
	s.t.Helper()
	for _, stream := range streams {
		s.await(s.started["nats-1"][0], "a restore of "+stream+" begins", func(context.Context) error {
			out, err := s.shell("nats request '$JS.API.STREAM.RESTORE." + stream + "' --timeout 5s <backup/" + stream + "/backup.json")
			if strings.Contains(out, "deliver_subject") || strings.Contains(out, "already in use") {
				return nil
			}
			return fmt.Errorf("%v\n%s", err, out) // err may be nil: NATS answered that it does not
		})
	}
	for _, stream := range streams {
		s.await(s.started["nats-1"][0], "the servers take "+stream+" for a stream", func(context.Context) error {
			out, err := s.shell("nats stream info --json " + stream)
			if err != nil {
				return fmt.Errorf("%w\n%s", err, out)
			}
			return nil
		})
	}
}
