package core

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Decide applies an event. The new State carries the Outbox of this decision; a
// State with the Decision number it came with means that nothing changed. An
// error is *Missing, or it means that this decision cannot be recorded
// (STATE_TOO_LARGE): decide the event Broken instead. Impossible states panic.
func Decide(p Pinned, s State, e Event) (next State, err error) {
	defer asks(&err)
	d := &decision{p: p, s: s.clone(), e: e, now: later(e.At, e.Now), valueMax: ValueMax, inline: s.inline()}
	if !d.apply() {
		return s, nil
	}
	d.finish()
	if err := d.check(); err != nil {
		return s, err
	}
	return d.s, nil
}

// decision is one application of one event.
type decision struct {
	p Pinned
	s State
	e Event

	now crumbs.Time // what this decision begins, begins now

	resumed, steps, hooks, results, blocked, calls, asks, ends []crumb
	intents                                                    []Intent

	valueMax int // larger values are references
	inline   int // bytes of values in the record that are none
}

type crumb interface{ Head() *crumbs.Base }

func (s State) clone() State {
	s.Calls = slices.Clone(s.Calls)
	s.Text = slices.Clone(s.Text)
	s.Transcript.Inline = slices.Clone(s.Transcript.Inline)
	s.Transcript.Segments = slices.Clone(s.Transcript.Segments)
	s.Transcript.Sizes = slices.Clone(s.Transcript.Sizes)
	s.Files = slices.Clone(s.Files)
	s.Rulings = slices.Clone(s.Rulings)
	s.Notices = slices.Clone(s.Notices)
	s.Chain, s.Parse = copied(s.Chain), copied(s.Parse)
	for i := range s.Calls {
		s.Calls[i].Chain = copied(s.Calls[i].Chain)
	}
	s.Outbox, s.Blobs = Outbox{}, nil
	return s
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

func (d *decision) apply() bool {
	if d.e.Kind == Requested {
		return d.requested()
	}
	if !d.s.Exists() {
		return d.e.Kind == Control && d.e.Control.Action == crumbs.ActionCancel && d.tombstone()
	}
	if d.s.Status.Ended() {
		return false
	}
	switch d.e.Kind {
	case ModelResult:
		return d.modelResult(d.e.Model)
	case CallResult:
		return d.callResult(d.e.Result)
	case Decided:
		return d.decided(d.e.Decision)
	case TimerDue:
		return d.timerDue(d.e.Timer)
	case Control:
		return d.control(d.e.Control)
	case Ordered:
		return d.order(d.e.Order)
	case Broken:
		return d.broken(d.e.Broken)
	}
	panic(fmt.Sprintf("core: event of kind %q", d.e.Kind))
}

// tombstone remembers a cancel that came before its request.
func (d *decision) tombstone() bool {
	d.s = State{Status: Cancelled, Run: Run{ID: d.e.Control.RunID, Tombstone: true, StartedAt: d.e.At, EndedAt: d.e.At},
		Result: &Result{Error: cancelled(d.e.Control)}}
	return true
}

func cancelled(c *crumbs.RunControl) *fault.Error {
	e := fault.New(fault.RunCancelled, "the run was cancelled")
	if c.Reason != "" {
		e.Message += ": " + clipTo(c.Reason, ReasonMax)
	}
	return e
}

func (d *decision) requested() bool {
	r := d.e.Request
	tombstone := d.s.Exists() && d.s.Run.Tombstone && d.s.Status == Cancelled
	if d.s.Exists() && !tombstone {
		return false
	}
	before := d.s
	d.s = State{Decision: before.Decision, Status: Running, Run: r.Run}
	d.s.Run.StartedAt = d.e.At
	if r.Refused != nil {
		d.end(Failed, &Result{Error: r.Refused})
		return true
	}
	if tombstone {
		d.s.Run.Skill, d.s.Opening = r.Skill, &Opening{Warns: r.Warns}
		d.opened(r.Input, nil)
		d.end(Cancelled, before.Result)
		return true
	}
	d.admitted(r)
	return true
}

// inputText is a run's input as the first user message: a string as it is,
// anything else as JSON.
func inputText(input json.RawMessage) string {
	var s string
	if json.Unmarshal(input, &s) == nil {
		return s
	}
	return string(input)
}

// startModel sends the next attempt: attempt 1 opens a step.
func (d *decision) startModel(attempt int) {
	if attempt == 1 {
		d.s.Step++
		d.s.Repeated = false
	}
	d.s.Retry = nil
	if cause := d.s.Run.Unserved; cause != nil {
		d.modelFailed(attempt, cause, nil)
		return
	}
	d.s.ModelCount++
	start := d.now.Add(d.p.Timing.StartBefore)
	d.s.Model = &ModelCall{ID: crumbs.ModelCallID(d.s.Run.ID, d.s.Step), Attempt: attempt, SentAt: d.now,
		StartBefore: start, Deadline: start.Add(d.p.Timing.ModelTimeout + d.p.Timing.Slack)}
	d.intents = append(d.intents, Intent{Kind: SendModel, Call: d.s.Model.ID, Attempt: attempt})
}

func (d *decision) modelResult(r *crumbs.ModelResult) bool {
	m := d.s.Model
	if m == nil || r.CallID != m.ID || r.Attempt != m.Attempt {
		return false
	}
	d.s.Model = nil
	d.spend(r.Usage, r.Cost)
	if r.Status == crumbs.StatusOK && r.Message != nil {
		if n := countCalls(r.Message); n <= AskedMax {
			d.turn(r)
			return true
		}
		r = &crumbs.ModelResult{Status: crumbs.StatusError, Usage: r.Usage, Cost: r.Cost, Deltas: r.Deltas, DurationMs: r.DurationMs,
			Error: fault.New(fault.ModelError, "the model asked for more than %d calls in one turn", AskedMax)}
	}
	cause := bounded(r.Error, fault.ModelError)
	if cause == nil {
		cause = fault.New(fault.ModelError, "the model call ended as %q without an error", r.Status)
	}
	d.modelFailed(m.Attempt, cause, r)
	return true
}

func countCalls(m *crumbs.Message) (n int) {
	for _, part := range m.Parts {
		if part.Type == crumbs.PartToolCall {
			n++
		}
	}
	return n
}

func (d *decision) spend(u *crumbs.Usage, c *crumbs.Cost) {
	if u != nil {
		sum := *u
		if d.s.Usage != nil {
			sum = d.s.Usage.Add(*u)
		}
		d.s.Usage = &sum
	}
	if c != nil && (d.s.Cost == nil || d.s.Cost.Currency == c.Currency) {
		sum := *c
		if d.s.Cost != nil {
			sum.Value += d.s.Cost.Value
		}
		d.s.Cost = &sum
	}
}

// turn takes a model's answer: text ends the run, calls are classified.
func (d *decision) turn(r *crumbs.ModelResult) {
	d.s.Prefix = r.Prompt
	message := crumbs.Message{Role: crumbs.RoleAssistant}
	d.s.Calls = nil
	var asked []crumbs.CallID
	for _, part := range r.Message.Parts {
		if part.Type == crumbs.PartToolCall {
			part = d.asked(part)
			asked = append(asked, part.ToolCallID)
		}
		message.Parts = append(message.Parts, part)
	}
	if len(asked) == 0 {
		d.final(r, message)
		return
	}
	d.steps = append(d.steps, &crumbs.StepEnd{Base: d.base(crumbs.TypeStepEnd), Attempt: r.Attempt, FinishReason: r.FinishReason, Text: textOf(message),
		ToolCallIDs: asked, Usage: r.Usage, Cost: r.Cost, Deltas: r.Deltas, DurationMs: r.DurationMs, PrefixKept: r.PrefixKept})
	d.fileParts(message)
	d.say(message)
	d.write(textOf(message))
	d.advance()
}

// stepsUsed ends a run that made all its steps, with the text of them.
func (d *decision) stepsUsed() {
	if d.p.Agent.Output.Format != agent.FormatCustom {
		d.conclude(d.joined(d.s.Text), finishSteps)
		return
	}
	d.s.Ending = &Ending{FinishReason: finishSteps}
	d.parse()
}

// advance goes on when every call of the turn has its outcome.
func (d *decision) advance() {
	for _, c := range d.s.Calls {
		if c.Phase != Settled {
			return
		}
	}
	if d.s.Stop != nil {
		d.end(d.s.Stop.Status, &Result{Error: d.s.Stop.Error})
		return
	}
	outputs := make([]Value, len(d.s.Calls))
	for i, c := range d.s.Calls {
		outputs[i] = c.Output
	}
	d.need(outputs...)
	for _, c := range d.s.Calls {
		d.say(crumbs.Message{Role: crumbs.RoleTool, Parts: []crumbs.Part{{Type: crumbs.PartToolResult, ToolCallID: c.ID,
			ToolName: c.Leaf, ProviderCallID: c.ProviderCallID, Outcome: c.Outcome, Output: d.load(c.Output)}}})
	}
	d.s.Calls = nil
	if d.s.Step >= d.s.Run.MaxSteps {
		d.stepsUsed()
		return
	}
	d.startModel(1)
}

// control applies a cancel; other actions do not reach the core.
func (d *decision) control(c *crumbs.RunControl) bool {
	if c.Action != crumbs.ActionCancel || d.s.Stop != nil {
		return false
	}
	return d.stop(Cancelled, cancelled(c))
}

// broken ends a run of which an event could not be decided. That event may be the
// armed timer, so another one is armed; and it may be what a stopping run waits
// for, which therefore does not wait again.
func (d *decision) broken(cause *fault.Error) bool {
	d.s.Timer.At = crumbs.Time{}
	if d.s.Stop == nil {
		return d.stop(Failed, cause)
	}
	d.s.Stop = &Stop{Status: Failed, Error: cause}
	for i := range d.s.Calls {
		if c := &d.s.Calls[i]; c.Phase == Dispatched {
			d.giveUp(c)
		}
	}
	d.advance()
	return true
}

// stop ends a run that still has things open: what never started can be settled
// for certain, what had started is asked to stop and gets CancelGrace.
func (d *decision) stop(status Status, cause *fault.Error) bool {
	if d.s.Opening != nil {
		d.opened(d.load(d.s.Chain.Input), d.s.Chain.By)
	}
	d.closeAttempt(nil)
	d.s.Stop = &Stop{Status: status, Error: cause}
	d.s.Model, d.s.Retry, d.s.Chain, d.s.Notices, d.s.Parse, d.s.Ending = nil, nil, nil, nil, nil, nil
	for i := range d.s.Calls {
		switch c := &d.s.Calls[i]; c.Phase {
		case Hooking, Waiting:
			d.halt(c)
		case Asking:
			d.withdraw(c)
		case Dispatched:
			d.interrupt(c, fault.New(fault.ToolCancelled, "the run was stopped before the tool started"), crumbs.OutcomeCancelled)
		}
	}
	d.intents = append(d.intents, Intent{Kind: SendCancel})
	d.advance()
	if !d.s.Status.Ended() {
		d.s.Status = Stopping
	}
	return true
}

// interrupt settles a call whose claim was revoked before it started, and gives
// one that had started the grace to report.
func (d *decision) interrupt(c *Call, never *fault.Error, outcome crumbs.Outcome) {
	if d.e.Claims[c.ID.Attempt(c.Attempt)] {
		if c.Grace.IsZero() {
			c.Grace = later(d.now, c.SentAt).Add(d.p.Timing.CancelGrace)
		}
		return
	}
	if c.Started && d.isOnce(c) {
		outcome, never = crumbs.OutcomeUnknown, fault.New(fault.OutcomeUnknown, "an attempt before this one had started: whether its effect happened is not known")
	}
	d.settleError(c, outcome, never, nil)
}

// end closes the run; exactly one terminal crumb, the last.
func (d *decision) end(status Status, r *Result) {
	s := &d.s
	s.Status, s.Result, s.Run.EndedAt = status, r, d.e.At
	s.Model, s.Retry, s.Timer.At = nil, nil, crumbs.Time{}
	s.Chain, s.Notices, s.Parse, s.Ending = nil, nil, nil, nil
	r.Steps = s.Step
	took := d.since(s.Run.StartedAt)
	if status == Completed {
		d.ends = append(d.ends, &crumbs.RunEnded{Base: d.base(crumbs.TypeRunEnded), Output: d.load(r.Output), FinishReason: r.FinishReason,
			Steps: s.Step, DurationMs: took, Usage: s.Usage, Cost: s.Cost, Files: s.Files, Hooks: s.By})
		return
	}
	d.ends = append(d.ends, &crumbs.AgentError{Base: d.base(crumbs.TypeAgentError), Error: r.Error, DurationMs: took,
		Steps: s.Step, Usage: s.Usage, Cost: s.Cost})
}

func text(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic("core: a string does not encode: " + err.Error())
	}
	return b
}
