package core

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Errand is a call of a hook or a parser: like a tool call it has attempts, claims
// and a deadline, unlike one it has no crumbs of its own.
type Errand struct {
	ID          crumbs.CallID `json:"id"`
	Attempt     int           `json:"attempt"`
	SentAt      crumbs.Time   `json:"sentAt,omitzero"`
	StartBefore crumbs.Time   `json:"startBefore,omitzero"`
	Deadline    crumbs.Time   `json:"deadline,omitzero"` // zero while the next attempt waits for its time
	RetryAt     crumbs.Time   `json:"retryAt,omitzero"`
}

// until is when something is due of an errand, nil having none.
func (e *Errand) until() crumbs.Time {
	switch {
	case e == nil:
		return crumbs.Time{}
	case e.RetryAt.IsZero():
		return e.Deadline
	}
	return e.RetryAt
}

// mission is an errand in flight with what it is for.
type mission struct {
	*Errand
	program agent.Program
	chain   *Chain // nil for the parser
	call    *Call  // that the chain is of; nil for the run
}

func (m mission) pending() Pending {
	return Pending{Call: m.ID, Attempt: m.Attempt, Queue: m.program.Group, SentAt: m.SentAt}
}

// missions lists the errands in flight: those of the run, then those of its calls in
// their order.
func missions(p Pinned, s *State) (all []mission) {
	add := func(c *Chain, call *Call) {
		if entry := hookOf(p, c, call); entry != nil {
			all = append(all, mission{Errand: &c.Errand, program: entry.Program, chain: c, call: call})
		}
	}
	if s.Chain != nil {
		add(s.Chain, nil)
	}
	if len(s.Notices) > 0 {
		add(&s.Notices[0], nil)
	}
	if s.Parse != nil && p.Tools != nil && p.Tools.Parser != nil {
		all = append(all, mission{Errand: s.Parse, program: p.Tools.Parser.Program})
	}
	for i := range s.Calls {
		if s.Calls[i].Chain != nil {
			add(s.Calls[i].Chain, &s.Calls[i])
		}
	}
	return all
}

// Mission is a call of a hook or a parser in flight, as it is explained and ordered
// about.
type Mission struct {
	Errand
	What    string // the hook with its point, or the parser
	Parse   bool
	Program agent.Program
	Call    crumbs.CallID // that the hook is called for; "" for the run
}

// Missions lists the calls of hooks and parsers that s waits for.
func Missions(p Pinned, s State) (all []Mission) {
	for _, m := range missions(p, &s) {
		out := Mission{Errand: *m.Errand, Program: m.program, Parse: m.chain == nil}
		if m.chain == nil {
			out.What = p.Tools.Parser.Name
		} else {
			out.What = hookOf(p, m.chain, m.call).Name + " (" + m.chain.Point + ")"
		}
		if m.call != nil {
			out.Call = m.call.ID
		}
		all = append(all, out)
	}
	return all
}

// errand is the mission of an attempt in flight, nil when there is none such.
func errand(p Pinned, s *State, id crumbs.CallID, attempt int) *mission {
	for _, m := range missions(p, s) {
		if m.ID == id && m.Attempt == attempt && m.RetryAt.IsZero() {
			return &m
		}
	}
	return nil
}

// send sends the next attempt of an errand, with its whole time from now.
func (d *decision) send(e *Errand, program agent.Program) {
	wait := d.p.Timing.StartBefore
	if program.StartBeforeMs > 0 {
		wait = ms(program.StartBeforeMs)
	}
	e.Attempt, e.SentAt, e.RetryAt = e.Attempt+1, d.now, crumbs.Time{}
	e.StartBefore = d.now.Add(wait)
	e.Deadline = e.StartBefore.Add(ms(program.TimeoutMs) + d.p.Timing.Slack)
	d.intents = append(d.intents, Intent{Kind: SendErrand, Call: e.ID, Attempt: e.Attempt})
}

// errandResult applies what a worker says of an errand.
func (d *decision) errandResult(r *crumbs.ToolResult) bool {
	m := errand(d.p, &d.s, r.CallID, r.Attempt)
	if m == nil || r.Group != m.program.Group {
		return false
	}
	if r.Status == crumbs.StatusOK {
		d.achieved(m, r.Result)
	} else {
		_, cause := reported(r)
		d.thwarted(m, cause)
	}
	return true
}

func (d *decision) achieved(m *mission, result json.RawMessage) {
	if m.chain == nil {
		d.parsed(result)
		return
	}
	d.answered(m, result)
}

func (d *decision) thwarted(m *mission, cause *fault.Error) {
	if m.chain == nil {
		d.unparsed(ofParser(d.p.Tools.Parser.Name, cause))
		return
	}
	d.hookFailed(m, cause)
}

// ofParser is a failure as the fault of a parser: one of a code of its own stays.
func ofParser(name string, cause *fault.Error) *fault.Error {
	if ofWorker(cause.Code) {
		return fault.New(fault.OutputInvalid, "the parser %s failed: %s", name, cause.Message)
	}
	return cause
}

// ofWorker reports whether a code says no more than that something went wrong where a
// program was to run.
func ofWorker(code fault.Code) bool {
	switch code {
	case fault.ToolError, fault.ToolLost, fault.ToolTimeout, fault.ToolCancelled, fault.OutcomeUnknown, fault.ToolResultInvalid:
		return true
	}
	return false
}

// errandsDue decides what the time of errands has reached.
func (d *decision) errandsDue() {
	var lost []crumbs.CallID
	for _, m := range missions(d.p, &d.s) {
		switch {
		case !due(m.until(), d.e.At):
		case !m.RetryAt.IsZero():
			d.send(m.Errand, m.program)
		default:
			lost = append(lost, m.ID)
			d.thwarted(&m, fault.New(fault.ToolLost, "no worker of group %s answered in time", m.program.Group))
		}
	}
	if len(lost) > 0 {
		d.intents = append(d.intents, Intent{Kind: SendCancel, Calls: lost})
	}
}

// errandOrdered applies an order about an errand in flight.
func (d *decision) errandOrdered(m *mission, o *crumbs.RunOrder) bool {
	if d.s.Stop != nil {
		return false
	}
	started := d.e.Claims[m.ID.Attempt(m.Attempt)]
	if started && o.Action != crumbs.OrderRedrive {
		d.intents = append(d.intents, Intent{Kind: SendCancel, Calls: []crumbs.CallID{m.ID}})
	}
	if o.Action != crumbs.OrderLost {
		d.rule(o)
	}
	switch {
	case o.Action == crumbs.OrderLost:
		d.thwarted(m, orderFault(o, fault.ToolLost))
	case o.Action == crumbs.OrderRedrive:
		d.send(m.Errand, m.program)
	case o.Error == nil:
		d.achieved(m, o.Result)
	default:
		d.thwarted(m, bounded(o.Error, fault.ToolError))
	}
	return true
}

// renderErrand makes the command of an errand. Its body is made of what the record
// keeps for it, so that every attempt has the same (F094).
func renderErrand(p Pinned, s State, in Intent, load Loader) (Command, bool, error) {
	m := errand(p, &s, in.Call, in.Attempt)
	if m == nil {
		return Command{}, false, nil
	}
	call := crumbs.ToolCall{Type: crumbs.TypeToolCall, RunID: s.Run.ID, AgentID: s.Run.Agent, SessionID: s.Run.Session, Step: s.Step,
		CallID: m.ID, Attempt: m.Attempt, Handler: m.program.Handler, ToolHash: m.program.ToolHash, Group: m.program.Group, Effect: m.program.Effect,
		AfterSeq: s.Seq, StartBefore: m.StartBefore, DeadlineAt: crumbs.At(m.Deadline.Add(-p.Timing.Slack).Time), TimeoutMs: m.program.TimeoutMs,
		Permission: crumbs.Permission{Verdict: crumbs.VerdictAllow}, Context: callContext(s)}
	var input any
	var err error
	if m.chain == nil {
		call.Kind, call.Tool, call.ToolName = crumbs.KindParse, crumbs.KindParse+":"+p.Tools.Parser.Name, crumbs.KindParse+"_"+p.Tools.Parser.Name
		input, err = parseInput(s, load)
	} else {
		name := hookOf(p, m.chain, m.call).Name
		call.Kind, call.Tool, call.ToolName = crumbs.KindHook, crumbs.KindHook+":"+name, crumbs.KindHook+"_"+name
		call.Hook = &crumbs.HookRef{Name: name, Point: m.chain.Point}
		input, err = hookInput(p, s, m, load)
	}
	if err != nil {
		return Command{}, false, err
	}
	if call.Args, err = json.Marshal(input); err != nil {
		return Command{}, false, fault.Wrap(fault.InternalError, err, "the input of %s does not encode", m.ID)
	}
	sum := sha256.Sum256(call.Args)
	call.ArgsHash = hex.EncodeToString(sum[:])
	return withBody(Command{Subject: crumbs.ToolCallSubject(m.program.Group, s.Run.ID), Type: call.Type, MessageID: m.ID.Attempt(m.Attempt), StartBefore: m.StartBefore}, call)
}
