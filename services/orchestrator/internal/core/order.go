package core

import (
	"encoding/json"
	"slices"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// order applies what somebody says of an attempt in flight in its worker's place.
// The attempt's claim was revoked before (Settles): it cannot start any more. An
// order about an attempt that has its outcome, or was given up, changes nothing.
func (d *decision) order(o *crumbs.RunOrder) bool {
	if m := d.s.Model; m != nil && m.ID == o.CallID && m.Attempt == o.Attempt {
		return d.modelOrdered(m, o)
	}
	if m := errand(d.p, &d.s, o.CallID, o.Attempt); m != nil {
		return d.errandOrdered(m, o)
	}
	c := d.call(o.CallID)
	if c == nil || c.Phase != Dispatched || c.Attempt != o.Attempt {
		return false
	}
	switch {
	case o.Action == crumbs.OrderLost && c.Grace.IsZero():
		d.lost(c, o)
	case o.Action == crumbs.OrderRedrive && d.s.Stop == nil:
		d.redrive(c, o)
	case o.Action == crumbs.OrderAnswer:
		d.answer(c, o)
	default:
		return false // it was asked to stop already, or its run is stopping
	}
	return true
}

// lost ends a call that no worker will ever take, or asks whoever had started it
// to stop.
func (d *decision) lost(c *Call, o *crumbs.RunOrder) {
	d.interrupt(c, orderFault(o, fault.ToolLost), crumbs.OutcomeError)
	if c.Phase != Settled {
		d.intents = append(d.intents, Intent{Kind: SendCancel, Calls: []crumbs.CallID{c.ID}})
	}
	d.advance()
}

// redrive gives the attempt up and sends the next one. What of the old one still
// runs hears of it from its claim: a ctl.cancel names calls, not attempts.
func (d *decision) redrive(c *Call, o *crumbs.RunOrder) {
	tool, ok := d.p.Tools.Lookup(c.Leaf)
	if !ok {
		panic("core: the pinned tool set lost " + c.Leaf)
	}
	c.Started = c.Started || d.e.Claims[c.ID.Attempt(c.Attempt)]
	d.attempt(c, tool)
	d.rule(o)
}

// answer settles a call with the outcome that somebody supplies.
func (d *decision) answer(c *Call, o *crumbs.RunOrder) {
	d.rule(o)
	if d.e.Claims[c.ID.Attempt(c.Attempt)] {
		d.intents = append(d.intents, Intent{Kind: SendCancel, Calls: []crumbs.CallID{c.ID}})
	}
	reason := clipTo(o.Reason, ReasonMax)
	if o.Error == nil {
		result := o.Result
		if len(result) == 0 {
			result = json.RawMessage("null")
		}
		d.results = append(d.results, &crumbs.ToolResulted{Base: d.base(crumbs.TypeToolResulted), ToolCallID: c.ID, ToolName: c.Leaf, Attempt: c.Attempt, Result: result,
			DurationMs: d.since(c.SentAt), By: o.By, Reason: reason})
		d.settle(c, crumbs.OutcomeOK, result)
		d.advance()
		return
	}
	cause, outcome := bounded(o.Error, fault.ToolError), crumbs.OutcomeError
	if cause.Code == fault.OutcomeUnknown {
		outcome = crumbs.OutcomeUnknown
	}
	d.results = append(d.results, &crumbs.ToolErrored{Base: d.base(crumbs.TypeToolErrored), ToolCallID: c.ID, ToolName: c.Leaf, Attempt: c.Attempt, Error: cause, Outcome: outcome,
		DurationMs: d.since(c.SentAt), By: o.By, Reason: reason})
	d.settle(c, outcome, errorOutput(cause))
	d.advance()
}

// modelOrdered applies an order about a model attempt; nobody answers in a model's
// place.
func (d *decision) modelOrdered(m *ModelCall, o *crumbs.RunOrder) bool {
	attempt := m.Attempt
	switch o.Action {
	case crumbs.OrderLost:
		d.s.Model = nil
		d.intents = append(d.intents, Intent{Kind: SendCancel, Calls: []crumbs.CallID{m.ID}})
		d.modelFailed(attempt, orderFault(o, fault.ModelError), nil)
	case crumbs.OrderRedrive:
		now := d.now
		d.steps = append(d.steps, &crumbs.StepEnd{Base: d.base(crumbs.TypeStepEnd), Attempt: attempt, RetryAt: &now,
			Error: fault.New(fault.ModelError, "the attempt was given up and is sent again: %s", clipTo(o.Reason, ReasonMax))})
		d.startModel(attempt + 1)
		d.rule(o)
	default:
		return false
	}
	return true
}

func orderFault(o *crumbs.RunOrder, code fault.Code) *fault.Error {
	if o.Error == nil {
		return fault.New(code, "nobody will take the call")
	}
	return bounded(o.Error, code)
}

// rule remembers an order that somebody gave: the last RulingsMax, and as long as an
// attempt is in flight the redrive that it is of, lest a repeated one send another.
func (d *decision) rule(o *crumbs.RunOrder) {
	d.s.Rulings = append(d.s.Rulings, Ruling{Action: o.Action, Call: o.CallID, Attempt: o.Attempt, By: o.By, At: d.e.At})
	others := 0
	for _, r := range d.s.Rulings {
		if !d.redriven(r) {
			others++
		}
	}
	d.s.Rulings = slices.DeleteFunc(d.s.Rulings, func(r Ruling) bool {
		if others <= RulingsMax || d.redriven(r) {
			return false
		}
		others--
		return true
	})
}

// redriven reports whether the attempt that an order had sent is in flight.
func (d *decision) redriven(r Ruling) bool {
	if r.Action != crumbs.OrderRedrive {
		return false
	}
	if m := d.s.Model; m != nil && m.ID == r.Call {
		return m.Attempt == r.Attempt+1
	}
	if c := d.call(r.Call); c != nil {
		return c.Phase == Dispatched && c.Attempt == r.Attempt+1
	}
	return errand(d.p, &d.s, r.Call, r.Attempt+1) != nil
}
