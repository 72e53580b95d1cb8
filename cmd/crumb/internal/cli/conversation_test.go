package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/terminal"
	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs/jscrumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

const patience = 30 * time.Second

// talk is a conversation about run r with a person who types what the test says.
type talk struct {
	inv     *invocation
	t       *testing.T
	crumbs  chan jscrumbs.Item
	keys    io.Writer
	screen  *screen
	answers chan string // `<checkpoint> <outcome>`
	refuse  error       // what the mesh says to an answer
	end     chan ending
}

// screen is standard error; told after each write.
type screen struct {
	mu     sync.Mutex
	text   bytes.Buffer
	before string // what stood there before what was taken last
	wrote  chan struct{}
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		select {
		case s.wrote <- struct{}{}:
		default:
		}
	}()
	return s.text.Write(p)
}

// take waits for text and clears the screen up to it.
func (s *screen) take(t *testing.T, text string) {
	t.Helper()
	for deadline := time.After(patience); ; {
		s.mu.Lock()
		at := strings.Index(s.text.String(), text)
		if at >= 0 {
			s.before = string(s.text.Next(at + len(text))[:at])
		}
		now := s.text.String()
		s.mu.Unlock()
		if at >= 0 {
			return
		}
		select {
		case <-s.wrote:
		case <-deadline:
			t.Fatalf("no %q on the screen:\n%s", text, now)
		}
	}
}

// is waits until the screen holds text and nothing else, and clears it.
func (s *screen) is(t *testing.T, text string) {
	t.Helper()
	s.take(t, text)
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := s.before + s.text.String(); left != "" {
		t.Errorf("beside %q on the screen: %q", text, left)
	}
}

func converse(t *testing.T, refuse error) *talk {
	t.Helper()
	in, keys := io.Pipe()
	k := &talk{t: t, crumbs: make(chan jscrumbs.Item), keys: keys, screen: &screen{wrote: make(chan struct{}, 1)},
		answers: make(chan string, 10), refuse: refuse, end: make(chan ending, 1)}
	inv := &invocation{ctx: t.Context(), globals: &globals{}, std: terminal.Stdio{
		In: in, Out: io.Discard, Err: k.screen, Env: func(string) (string, bool) { return "", false }}}
	k.inv = inv
	c := &conversation{inv: inv, lines: terminal.NewLines(in), print: func(item jscrumbs.Item) error { inv.say("crumb %d", item.Seq); return nil },
		answer: func(_ context.Context, id crumbs.CheckpointID, a client.Answer) error {
			k.answers <- fmt.Sprintf("%s %s %s", id, a.Outcome, a.ArgsHash)
			return k.refuse
		}}
	follow := func(yield func(jscrumbs.Item, error) bool) {
		for item := range k.crumbs {
			if !yield(item, nil) {
				return
			}
		}
	}
	go func() {
		end, err := c.run(t.Context(), follow)
		if err != nil {
			t.Error(err)
		}
		k.end <- end
	}()
	return k
}

func (k *talk) crumb(body string, suspended bool) {
	k.t.Helper()
	item := jscrumbs.Item{Raw: json.RawMessage(body)}
	if err := json.Unmarshal(item.Raw, &item.Base); err != nil {
		k.t.Fatal(err)
	}
	item.Suspended = suspended
	k.crumbs <- item
}

func (k *talk) asks(seq int, checkpoint, kind string, suspended bool) {
	k.t.Helper()
	k.crumb(fmt.Sprintf(`{"type":"human:required","runId":"r","agentId":"a","sessionId":"s","seq":%d,"timestamp":1,"step":1,"checkpointId":%q,`+
		`"kind":%q,"toolName":"tool_%s","args":{},"argsHash":%q,"suspended":%t,"schema":{}}`, seq, checkpoint, kind, kind, strings.Repeat("a", 64), suspended), suspended)
}

func (k *talk) resumed(seq int, checkpoint, kind, outcome string, suspended bool) {
	k.t.Helper()
	k.crumb(fmt.Sprintf(`{"type":"human:resumed","runId":"r","agentId":"a","sessionId":"s","seq":%d,"timestamp":1,"step":1,"checkpointId":%q,"kind":%q,`+
		`"outcome":%q,"waitedMs":1}`, seq, checkpoint, kind, outcome), suspended)
}

func (k *talk) key(line string) {
	k.t.Helper()
	if _, err := io.WriteString(k.keys, line); err != nil {
		k.t.Fatal(err)
	}
}

func (k *talk) answered(want string) {
	k.t.Helper()
	select {
	case got := <-k.answers:
		if want += " " + strings.Repeat("a", 64); got != want {
			k.t.Errorf("answered %q, expected %q", got, want)
		}
	case <-time.After(patience):
		k.t.Fatalf("no answer, expected %q", want)
	}
}

func (k *talk) ends() ending {
	k.t.Helper()
	select {
	case end := <-k.end:
		return end
	case <-time.After(patience):
		k.t.Fatal("the conversation did not end")
		return ending{}
	}
}

// A yes typed for a question that another answered meanwhile approves nothing
// else: the next question is asked only after that line is gone.
func TestConversation_AYesForAGoneQuestionAnswersNothing(t *testing.T) {
	t.Parallel()
	k := converse(t, nil)
	k.asks(1, "r.1.0", crumbs.KindApproval, false)
	k.asks(2, "r.1.1", crumbs.KindApproval, true)
	k.screen.take(t, "Approve?")
	k.resumed(3, "r.1.0", crumbs.KindApproval, "rejected", true)
	k.screen.take(t, "Press Enter to go on.")
	k.key("y\n")
	k.screen.take(t, "Approve?")
	k.key("n\n")
	k.answered("r.1.1 reject")
	close(k.crumbs)
	k.ends()
	if len(k.answers) > 0 {
		t.Errorf("one answer more: %s", <-k.answers)
	}
}

// What happens while a prompt stands there begins on a line of its own, and the
// prompt stands there again when its question is still open.
func TestConversation_ACrumbIsNoContinuationOfThePrompt(t *testing.T) {
	t.Parallel()
	k := converse(t, nil)
	k.asks(1, "r.1.0", crumbs.KindApproval, true)
	const prompt = "Approve? y = yes, n REASON = no, Ctrl-D = decide later: "
	k.screen.take(t, prompt)
	k.crumb(`{"type":"tool:result","runId":"r","seq":2,"toolCallId":"r.1.1","toolName":"t","result":1}`, true)
	k.screen.is(t, "\ncrumb 2\n"+prompt)
	k.resumed(3, "r.1.0", crumbs.KindApproval, "approved", false)
	k.screen.is(t, "\ncrumb 3\nThat question is settled. Press Enter to go on.\n")
	close(k.crumbs)
	k.ends()
}

// Approvals come before other questions, one at a time, whatever their order.
func TestConversation_ApprovalsFirst(t *testing.T) {
	t.Parallel()
	k := converse(t, nil)
	k.asks(1, "r.1.0", crumbs.KindInput, false)
	k.asks(2, "r.1.1", crumbs.KindApproval, true)
	k.screen.take(t, "Approve?")
	k.key("yes\n")
	k.answered("r.1.1 approve")
	k.resumed(3, "r.1.1", crumbs.KindApproval, "approved", true)
	k.screen.take(t, "Answer?")
	k.key("42\n")
	k.answered("r.1.0 answer")
	close(k.crumbs)
	k.ends()
}

// An answer that the mesh does not take is asked for again; nothing is lost.
func TestConversation_ARefusedAnswerIsAskedAgain(t *testing.T) {
	t.Parallel()
	k := converse(t, fault.New(fault.DecisionInvalid, "too short"))
	k.asks(1, "r.1.0", crumbs.KindInput, true)
	for range 2 {
		k.screen.take(t, "Answer?")
		k.key("x\n")
		k.answered("r.1.0 answer")
		k.screen.take(t, "too short")
	}
	k.screen.take(t, "Answer?")
	if err := k.keys.(io.Closer).Close(); err != nil { // the person leaves
		t.Fatal(err)
	}
	if end := k.ends(); len(end.open) != 1 || end.open[0].CheckpointID != "r.1.0" {
		t.Errorf("open at the end: %+v", end.open)
	}
}

// A role that may not answer is not asked twice: the run waits as it did, and the
// command that answers names the settings of the role that may.
func TestConversation_ARoleThatMayNotAnswer(t *testing.T) {
	t.Parallel()
	k := converse(t, fault.New(fault.PermissionsViolation, "NATS does not let this role ask crumbmesh.approvals.decide"))
	k.asks(1, "r.1.0", crumbs.KindApproval, false)
	k.asks(2, "r.1.1", crumbs.KindApproval, true)
	k.screen.take(t, "Approve?")
	k.key("y\n")
	k.answered("r.1.0 approve")
	if end := k.ends(); len(end.open) != 2 {
		t.Errorf("open: %+v", end.open)
	}
	k.screen.take(t, "PERMISSIONS_VIOLATION")
	if k.inv.mayAnswer() || !strings.HasPrefix(k.inv.howToAnswer(question{CheckpointID: "r.1.0", Kind: crumbs.KindApproval}), "crumb --config DIR/approver.yaml approvals approve r.1.0 ") {
		t.Error(k.inv.howToAnswer(question{CheckpointID: "r.1.0", Kind: crumbs.KindApproval}))
	}
}
