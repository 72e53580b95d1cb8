package core

import (
	"encoding/json"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// EventKind is what happened to a run.
type EventKind string

// The events.
const (
	Requested   EventKind = "requested"
	ModelResult EventKind = "modelResult"
	CallResult  EventKind = "callResult"
	Decided     EventKind = "decision"
	TimerDue    EventKind = "timer"
	Control     EventKind = "control"
	Ordered     EventKind = "order"
	Broken      EventKind = "failed" // deciding another event panicked or failed
)

// Event is one message about a run. At is the time the message was stored (a
// timer's: its scheduled time), the same on every replica and redelivery: it says
// what is due. Now is when the event is decided, after an outage long after At:
// what a decision begins is timed from it, lest a command be void before it is
// sent. A Now before At, or none, is At.
type Event struct {
	Kind EventKind
	At   crumbs.Time
	Now  crumbs.Time

	Request  *Request
	Model    *crumbs.ModelResult
	Result   *crumbs.ToolResult
	Decision *crumbs.Decision // its signature was verified by the worker
	Timer    *crumbs.TimerDue
	Control  *crumbs.RunControl
	Order    *crumbs.RunOrder
	Broken   *fault.Error

	// Claims tells of the attempts this event would settle without their answer
	// (see Settles) whether they had started when their claims were revoked.
	Claims map[string]bool
	// Blobs holds the objects that an earlier try asked for (Missing).
	Blobs map[string][]byte
}

// Request is an admitted or refused run request.
type Request struct {
	Run     Run
	Input   json.RawMessage
	Skill   string
	Refused *fault.Error // the run ends at once with this
	Warns   []string

	// Unserved is why no model attempt of the run can be sent: the run opens, and
	// its first attempt fails with it.
	Unserved *fault.Error
}

// Pinned is what a run's hashes name: the agent's revision, its tool set, and
// the durations this process uses.
type Pinned struct {
	Agent  *agent.Definition
	Tools  *agent.ToolSet
	Timing Timing
}

// Timing bounds every wait of a run.
type Timing struct {
	StartBefore  time.Duration // how long a command may wait in its queue
	ModelTimeout time.Duration // of one model attempt, once started
	ToolTimeout  time.Duration // of a tool that names none
	Slack        time.Duration // between a worker's deadline and the orchestrator's
	CancelGrace  time.Duration // for calls that had started
	Question     time.Duration // of a question that names no expiry
	QuestionMax  time.Duration
}

// DefaultTiming returns the durations of a mesh with the default settings.
func DefaultTiming() Timing {
	return Timing{StartBefore: 10 * time.Minute, ModelTimeout: 10 * time.Minute, ToolTimeout: 5 * time.Minute,
		Slack: 15 * time.Second, CancelGrace: 10 * time.Second, Question: 24 * time.Hour, QuestionMax: 7 * 24 * time.Hour}
}

// Pending is something an event would settle without its own answer.
type Pending struct {
	Call    crumbs.CallID
	Attempt int  // 0 for a question
	Model   bool // a model attempt
	Queue   string
	SentAt  crumbs.Time // when its command was decided
}

// Key names the claim of a pending attempt.
func (p Pending) Key() string { return p.Call.Attempt(p.Attempt) }

// Settles lists what e would settle without an answer: what a deadline, expiry,
// grace, cancel, order or failure ends. Before such an event is decided the worker
// revokes the claims of the attempts and, for a timer, looks whether INBOX
// already holds an answer.
func Settles(p Pinned, s State, e Event) []Pending {
	if s.Status.Ended() {
		return nil
	}
	all := e.Kind == Broken || e.Kind == Control && e.Control.Action == crumbs.ActionCancel
	if e.Kind == TimerDue && e.Timer.V == s.Timer.V && !s.Run.DeadlineAt.IsZero() && due(s.Run.DeadlineAt, e.At) && s.Stop == nil {
		all = true
	}
	if e.Kind == Ordered {
		return ordered(p, s, e.Order)
	}
	if !all && (e.Kind != TimerDue || e.Timer.V != s.Timer.V) {
		return nil
	}
	var out []Pending
	if m := s.Model; m != nil && (all || due(m.Deadline, e.At)) {
		out = append(out, Pending{Call: m.ID, Attempt: m.Attempt, Model: true, Queue: provider(p), SentAt: m.SentAt})
	}
	for _, c := range s.Calls {
		switch {
		case c.Phase == Asking && (all || due(c.Question.ExpiresAt, e.At)):
			out = append(out, Pending{Call: c.ID})
		case c.Phase == Dispatched && (all || due(c.until(), e.At)):
			out = append(out, Pending{Call: c.ID, Attempt: c.Attempt, Queue: group(p, c.Leaf), SentAt: c.SentAt})
		}
	}
	for _, m := range missions(p, &s) {
		if m.RetryAt.IsZero() && (all || due(m.Deadline, e.At)) {
			out = append(out, m.pending())
		}
	}
	return out
}

// ordered is the attempt in flight that an order is about, none when it is stale.
func ordered(p Pinned, s State, o *crumbs.RunOrder) []Pending {
	if m := s.Model; m != nil && m.ID == o.CallID && m.Attempt == o.Attempt {
		return []Pending{{Call: m.ID, Attempt: m.Attempt, Model: true, Queue: provider(p), SentAt: m.SentAt}}
	}
	if m := errand(p, &s, o.CallID, o.Attempt); m != nil {
		return []Pending{m.pending()}
	}
	for _, c := range s.Calls {
		if c.ID == o.CallID && c.Phase == Dispatched && c.Attempt == o.Attempt {
			return []Pending{{Call: c.ID, Attempt: c.Attempt, Queue: group(p, c.Leaf), SentAt: c.SentAt}}
		}
	}
	return nil
}

func provider(p Pinned) string {
	if p.Agent == nil {
		return ""
	}
	return p.Agent.Queue()
}

func group(p Pinned, leaf string) string {
	if p.Tools == nil {
		return ""
	}
	if t, ok := p.Tools.Lookup(leaf); ok {
		return t.Group
	}
	return ""
}

// until is when a dispatched call is given up.
func (c Call) until() crumbs.Time {
	if !c.Grace.IsZero() {
		return c.Grace
	}
	return c.Deadline
}

func due(deadline, now crumbs.Time) bool { return !deadline.After(now.Time) }
