package core

import (
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/hook/rule"
)

// Lapse is the last execution of a call, which failed.
type Lapse struct {
	Error      *fault.Error `json:"error"`
	DurationMs int64        `json:"durationMs,omitempty"`
	Deltas     int          `json:"deltas,omitempty"`
	Worker     string       `json:"worker,omitempty"`
}

// Closing is a model attempt that has its answer while its step:end waits for a
// hook or a parser.
type Closing struct {
	Attempt      int           `json:"attempt"`
	FinishReason string        `json:"finishReason,omitempty"`
	Message      Value         `json:"message,omitzero"` // the assistant's
	Usage        *crumbs.Usage `json:"usage,omitempty"`
	Cost         *crumbs.Cost  `json:"cost,omitempty"`
	Deltas       int           `json:"deltas,omitempty"`
	DurationMs   int64         `json:"durationMs,omitempty"`
	PrefixKept   *bool         `json:"prefixKept,omitempty"`
	Error        *fault.Error  `json:"error,omitempty"`

	said string // text of a message that is not kept here
}

func retryOf(r *agent.Retry) *rule.Retry {
	if r == nil {
		return nil
	}
	return &rule.Retry{Attempts: r.Attempts, BackoffMs: r.BackoffMs, Multiplier: r.BackoffMultiplier}
}

// modelFailed takes a failed model attempt; the onError hooks of the run and
// errorHandling.retry decide what follows. r is nil when no gateway answered.
func (d *decision) modelFailed(attempt int, cause *fault.Error, r *crumbs.ModelResult) {
	c := &Closing{Attempt: attempt, Error: cause}
	if r != nil {
		c.Usage, c.Cost, c.Deltas, c.DurationMs, c.PrefixKept = r.Usage, r.Cost, r.Deltas, r.DurationMs, r.PrefixKept
	}
	d.attemptFailed(c)
}

func (d *decision) attemptFailed(c *Closing) {
	d.s.Closing = c
	if len(chain(d.p, crumbs.HookOnError, nil)) == 0 {
		d.resolve(crumbs.HookAnswer{})
		return
	}
	d.s.Chain = &Chain{Point: crumbs.HookOnError, Input: d.s.Input, Error: c.Error, Failure: c.Attempt}
	d.begin(d.s.Chain, nil)
}

// resolve decides what follows the failed model attempt.
func (d *decision) resolve(a crumbs.HookAnswer) {
	c := d.s.Closing
	v := rule.Resolve(rule.Failure{Cause: c.Error, Attempt: c.Attempt, Retry: retryOf(d.p.Agent.ErrorHandling.Retry), Repeated: d.s.Repeated}, a)
	switch {
	case v.Again:
		at := d.now.Add(v.Delay)
		d.closeAttempt(&at)
		d.s.Repeated = a.Action == crumbs.HookRetry || d.s.Repeated
		if v.Delay > 0 {
			d.s.Retry = &Retry{Attempt: c.Attempt + 1, At: at}
		} else {
			d.startModel(c.Attempt + 1)
		}
	case v.Fail != nil:
		d.closeAttempt(nil)
		d.end(Failed, &Result{Error: bounded(v.Fail, fault.HookError)})
	default:
		d.closeAttempt(nil)
		d.conclude(v.Recover, finishStop)
	}
}

// closeAttempt tells of the attempt whose step:end waited.
func (d *decision) closeAttempt(retryAt *crumbs.Time) {
	c := d.s.Closing
	if c == nil {
		return
	}
	d.s.Closing = nil
	step := &crumbs.StepEnd{Base: d.base(crumbs.TypeStepEnd), Attempt: c.Attempt, FinishReason: c.FinishReason, Usage: c.Usage, Cost: c.Cost,
		Deltas: c.Deltas, DurationMs: c.DurationMs, PrefixKept: c.PrefixKept, Error: c.Error, RetryAt: retryAt}
	if step.Text = c.said; !c.Message.IsZero() {
		step.Text = textOf(d.message(c.Message))
	}
	d.steps = append(d.steps, step)
}

func (d *decision) message(v Value) (m crumbs.Message) {
	if err := json.Unmarshal(d.load(v), &m); err != nil {
		panic("core: a message does not decode: " + err.Error())
	}
	return m
}

func textOf(m crumbs.Message) (text string) {
	for _, part := range m.Parts {
		if part.Type == crumbs.PartText {
			text += part.Text
		}
	}
	return text
}

// callFailed takes a failed execution of a call; its onError hooks and its retry
// decide what follows. A streaming tool has neither: what it yielded is out.
func (d *decision) callFailed(c *Call, tool *agent.Entry, cause *fault.Error, r *crumbs.ToolResult) {
	c.Failed = &Lapse{Error: cause, DurationMs: r.DurationMs, Deltas: r.Deltas, Worker: r.Worker}
	switch {
	case tool.Stream || d.s.Stop != nil:
		d.settleFailed(c, cause, "")
	case len(tool.Hooks.At(crumbs.HookOnError)) == 0:
		d.resolveCall(c, tool, crumbs.HookAnswer{}, "")
	default:
		c.Phase, c.Chain = Hooking, &Chain{Point: crumbs.HookOnError, Input: c.Args, Error: cause, Failure: c.Attempt}
		d.begin(c.Chain, c)
	}
}

// resolveCall decides what follows a failed execution of a call.
func (d *decision) resolveCall(c *Call, tool *agent.Entry, a crumbs.HookAnswer, name string) {
	v := rule.Resolve(rule.Failure{Cause: c.Failed.Error, Attempt: c.Attempt, Retry: retryOf(tool.Retry), Repeated: c.Repeated}, a)
	switch {
	case v.Again:
		c.Repeated = a.Action == crumbs.HookRetry || c.Repeated
		if v.Delay > 0 {
			c.Phase, c.RetryAt = Waiting, d.now.Add(v.Delay)
		} else {
			d.attempt(c, tool)
		}
	case v.Fail != nil:
		if v.Fail == c.Failed.Error {
			name = ""
		}
		d.settleFailed(c, bounded(v.Fail, fault.HookError), name)
	default:
		d.succeed(c, tool, &crumbs.ToolResulted{Result: v.Recover, DurationMs: c.Failed.DurationMs, Deltas: c.Failed.Deltas, Worker: c.Failed.Worker, Hook: name})
	}
}

// settleFailed settles a call whose last execution failed.
func (d *decision) settleFailed(c *Call, cause *fault.Error, name string) {
	crumb := &crumbs.ToolErrored{Base: d.base(crumbs.TypeToolErrored), ToolCallID: c.ID, ToolName: c.Leaf, Attempt: c.Attempt, Error: cause,
		Outcome: crumbs.OutcomeError, Hook: name}
	if f := c.Failed; f != nil {
		crumb.DurationMs, crumb.Deltas, crumb.Worker = f.DurationMs, f.Deltas, f.Worker
	}
	d.results = append(d.results, crumb)
	d.settle(c, crumbs.OutcomeError, errorOutput(cause))
}

// succeed tells of the result of a call, and lets its afterRun hooks have it before
// the model.
func (d *decision) succeed(c *Call, tool *agent.Entry, crumb *crumbs.ToolResulted) {
	crumb.Base, crumb.ToolCallID, crumb.ToolName, crumb.Attempt = d.base(crumbs.TypeToolResulted), c.ID, c.Leaf, c.Attempt
	d.results = append(d.results, crumb)
	if d.s.Stop != nil || len(tool.Hooks.At(crumbs.HookAfterRun)) == 0 {
		d.settle(c, crumbs.OutcomeOK, crumb.Result)
		return
	}
	c.Phase, c.Chain = Hooking, &Chain{Point: crumbs.HookAfterRun, Input: c.Args, Output: d.value(crumb.Result), DurationMs: crumb.DurationMs}
	d.begin(c.Chain, c)
}
