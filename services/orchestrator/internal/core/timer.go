package core

import (
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// since is how long ago t was, in milliseconds. Events are not decided in the
// order of their times: a timer that was given back, or a cancel that overtook its
// request, may be older than what it ends.
func (d *decision) since(t crumbs.Time) int64 { return max(0, d.now.Sub(t.Time).Milliseconds()) }

func later(a, b crumbs.Time) crumbs.Time {
	if a.Before(b.Time) {
		return b
	}
	return a
}

// timerDue decides what the time of the one timer has reached; a timer with
// another number is stale. A timer that finds nothing due arms the next one.
func (d *decision) timerDue(t *crumbs.TimerDue) bool {
	if t.V != d.s.Timer.V || d.s.Timer.At.IsZero() {
		return false
	}
	d.s.Timer.At = crumbs.Time{}
	if at := d.s.Run.DeadlineAt; !at.IsZero() && due(at, d.e.At) && d.s.Stop == nil {
		return d.stop(Failed, fault.New(fault.RunDeadlineExceeded, "the run did not end by %s, its limits.deadlineMs or the longest that a run may take", at.UTC().Format(time.RFC3339)))
	}
	if m := d.s.Model; m != nil && due(m.Deadline, d.e.At) {
		d.modelLost(m)
	}
	if r := d.s.Retry; r != nil && due(r.At, d.e.At) {
		d.startModel(r.Attempt)
	}
	d.errandsDue()
	if d.s.Status.Ended() {
		return true
	}
	settled := false
	var interrupted []crumbs.CallID
	for i := range d.s.Calls {
		c := &d.s.Calls[i]
		switch {
		case c.Phase == Asking && due(c.Question.ExpiresAt, d.e.At):
			d.expire(c)
			settled = true
		case c.Phase == Waiting && due(c.RetryAt, d.e.At):
			d.again(c)
		case c.Phase == Dispatched && !c.Grace.IsZero() && due(c.Grace, d.e.At):
			d.giveUp(c)
			settled = true
		case c.Phase == Dispatched && c.Grace.IsZero() && due(c.Deadline, d.e.At):
			d.interrupt(c, fault.New(fault.ToolLost, "no worker of the group started the call in time"), crumbs.OutcomeError)
			if c.Phase == Settled {
				settled = true
			} else {
				interrupted = append(interrupted, c.ID)
			}
		}
	}
	if len(interrupted) > 0 {
		d.intents = append(d.intents, Intent{Kind: SendCancel, Calls: interrupted})
	}
	if settled {
		d.advance()
	}
	return true
}

// again sends the next attempt of a call that failed.
func (d *decision) again(c *Call) {
	tool, ok := d.p.Tools.Lookup(c.Leaf)
	if !ok {
		panic("core: the pinned tool set lost " + c.Leaf)
	}
	d.attempt(c, tool)
}

func (d *decision) modelLost(m *ModelCall) {
	d.s.Model = nil
	d.intents = append(d.intents, Intent{Kind: SendCancel, Calls: []crumbs.CallID{m.ID}})
	d.modelFailed(m.Attempt, fault.New(fault.ModelTimeout, "no model gateway answered in time"), nil)
}

// giveUp settles a call that had started and did not report in its grace.
func (d *decision) giveUp(c *Call) {
	if d.isOnce(c) {
		d.settleError(c, crumbs.OutcomeUnknown, fault.New(fault.OutcomeUnknown, "the call had started and its worker did not report: whether its effect happened is not known"), nil)
		return
	}
	code := fault.ToolTimeout
	if d.s.Stop != nil {
		code = fault.ToolCancelled
	}
	d.settleError(c, crumbs.OutcomeCancelled, fault.New(code, "the call was stopped and its worker did not report"), nil)
}

// isOnce reports whether a call must not happen twice.
func (d *decision) isOnce(c *Call) bool {
	tool, ok := d.p.Tools.Lookup(c.Leaf)
	return ok && tool.Effect == crumbs.EffectOnce
}

// earliest is the next time something of the run is due, zero when nothing is.
func (s State) earliest() crumbs.Time {
	var first crumbs.Time
	add := func(t crumbs.Time) {
		if !t.IsZero() && (first.IsZero() || t.Before(first.Time)) {
			first = t
		}
	}
	if s.Status.Ended() {
		return first
	}
	if s.Stop == nil {
		add(s.Run.DeadlineAt)
	}
	if s.Model != nil {
		add(s.Model.Deadline)
	}
	if s.Retry != nil {
		add(s.Retry.At)
	}
	if s.Chain != nil {
		add(s.Chain.until())
	}
	if len(s.Notices) > 0 {
		add(s.Notices[0].until())
	}
	add(s.Parse.until())
	for _, c := range s.Calls {
		switch c.Phase {
		case Hooking:
			add(c.Chain.until())
		case Waiting:
			add(c.RetryAt)
		case Asking:
			add(c.Question.ExpiresAt)
		case Dispatched:
			add(c.until())
		}
	}
	return first
}

// ahead is where the timer of a model call that is sent now is armed instead. Its
// answer most often brings calls, and these are due before the model was: armed for
// the earliest time that any of them can be, the timer need not be set once more in
// each turn, only in the rare one that takes so long.
func (d *decision) ahead(next crumbs.Time) crumbs.Time {
	m := d.s.Model
	if m == nil || !m.SentAt.Equal(d.now.Time) {
		return next
	}
	if calls := d.now.Add(d.p.Timing.StartBefore); calls.Before(next.Time) {
		return calls
	}
	return next
}

// arm sets the timer when the earliest deadline moved nearer than the armed one.
func (d *decision) arm() {
	next := d.s.earliest()
	if next.IsZero() || !d.s.Timer.At.IsZero() && !next.Before(d.s.Timer.At.Time) {
		return
	}
	next = d.ahead(next)
	d.s.Timer = Timer{V: d.s.Timer.V + 1, At: next}
	d.intents = append(d.intents, Intent{Kind: SetTimer, V: d.s.Timer.V, At: next})
}
