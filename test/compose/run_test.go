//go:build e2e

package compose_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

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

// The file's commands make a mesh that works: as env.example says, the signing key
// first, then everything, scaled; a run goes through it, over the death of a NATS
// server; every process drains when it is told to stop.
func TestE2E_Compose_RunsTheExample(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.up(project(t), "approvals", 2)
	s.healthy("approvals")
	key := publicKey.FindStringSubmatch(s.line("approvals", "CRUMB_APPROVALS_PUBKEY"))
	if key == nil {
		t.Fatalf("approvals says no public key:\n%s", s.started["approvals"][0].said())
	}

	p := project(t, "CRUMB_APPROVALS_PUBKEY="+key[1])
	for name, scale := range map[string]int{"orchestrator": 2, "modelgw": 1, "toolexec-scripts": 3, "toolexec-demo": 2} {
		s.up(p, name, scale)
	}
	for _, name := range []string{"orchestrator", "modelgw", "toolexec-scripts"} {
		s.healthy(name)
	}
	s.up(p, "apply", 1)
	s.completed(p, "apply")

	if out, status := s.crumb("run", "publisher", "--run-id", "composed", "--input", `{"path":"README.md"}`); status != waiting {
		t.Fatalf("crumb run: status %d, want %d, a question to a person\n%s", status, waiting, out)
	}
	if err := s.started["nats-2"][0].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.started["nats-2"][0].ended
	s.answer("composed") // a headline
	s.answer("composed") // the approval
	s.insist("watch", "composed")
	if _, err := os.Stat(s.volume("published") + "/published.md"); err != nil {
		t.Errorf("the run completed and published nothing: %v", err)
	}
	s.down(p, "toolexec-demo", "toolexec-scripts", "modelgw", "orchestrator", "approvals")
}
