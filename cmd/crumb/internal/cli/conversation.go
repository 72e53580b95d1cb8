package cli

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/terminal"
	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs/jscrumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// quietWait is how long a run must be silent before a question is asked that it
// does not wait for alone: a call beside it may take hours.
const quietWait = 2 * time.Second

// question is an open checkpoint of the run.
type question = crumbs.HumanRequired

// conversation follows one run to its end, or until it waits for people whom
// nobody here can or wants to speak for. In between it asks who sits here.
// Approvals come before other questions: what is rejected needs no wording.
type conversation struct {
	inv    *invocation
	print  func(jscrumbs.Item) error
	answer func(context.Context, crumbs.CheckpointID, client.Answer) error

	// Who is asked: auto answers by itself, else lines is what a person types.
	// Without both nobody is.
	auto  func(question) client.Answer
	lines *terminal.Lines

	cancels bool // the run is this command's own: interrupting it cancels the run

	ending // so far

	later     map[crumbs.CheckpointID]bool // the person decides later
	answered  map[crumbs.CheckpointID]bool // by this process
	asked     *question                    // the prompt that stands there now
	stale     bool                         // the line being typed is for a prompt that is gone
	suspended bool                         // the run waits for nothing but people
}

// ending is how following a run came to its end.
type ending struct {
	last jscrumbs.Item // the terminal crumb, or the last one before the run was left waiting
	open []question    // what it waits for, in the order of their crumbs
}

// take notes what an item says of the ending.
func (e *ending) take(item jscrumbs.Item) error {
	if item.Delta {
		return nil
	}
	e.last = item
	switch item.Type {
	case crumbs.TypeHumanRequired:
		var q question
		if err := item.Decode(&q); err != nil {
			return err
		}
		e.open = append(e.open, q)
	case crumbs.TypeHumanResumed:
		var r crumbs.HumanResumed
		if err := item.Decode(&r); err != nil {
			return err
		}
		e.open = slices.DeleteFunc(e.open, func(q question) bool { return q.CheckpointID == r.CheckpointID })
	}
	return nil
}

// arrival is one pair of a Follow.
type arrival struct {
	item jscrumbs.Item
	err  error
}

// run follows until the run ends or is left waiting.
func (c *conversation) run(ctx context.Context, follow iter.Seq2[jscrumbs.Item, error]) (ending, error) {
	c.later, c.answered = map[crumbs.CheckpointID]bool{}, map[crumbs.CheckpointID]bool{}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	arrivals := pump(ctx, follow)
	for !c.over() {
		if err := c.step(ctx, arrivals); err != nil {
			if errors.Is(err, io.EOF) {
				break
			}
			return c.ending, err
		}
	}
	return c.ending, nil
}

// pump makes a channel of an iterator; it is closed after the last pair.
func pump(ctx context.Context, follow iter.Seq2[jscrumbs.Item, error]) <-chan arrival {
	out := make(chan arrival)
	go func() {
		defer close(out)
		for item, err := range follow {
			select {
			case out <- arrival{item, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// step waits for one thing to happen and reacts. It returns io.EOF when there is
// nothing more to follow.
func (c *conversation) step(ctx context.Context, arrivals <-chan arrival) error {
	quiet := time.NewTimer(quietWait)
	defer quiet.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case a, ok := <-arrivals:
		if !ok {
			return io.EOF
		}
		if err := c.arrived(a); err != nil {
			return err
		}
		if !c.suspended {
			return nil
		}
	case typed := <-c.typed():
		return c.said(ctx, typed)
	case <-quiet.C:
	}
	return c.next(ctx)
}

// over reports whether the run waits for people only, and all of them elsewhere.
func (c *conversation) over() bool {
	return c.suspended && c.asked == nil && c.pick() == nil
}

// arrived takes one crumb in.
func (c *conversation) arrived(a arrival) error {
	if a.err != nil {
		return a.err
	}
	c.suspended = a.item.Suspended && a.item.Pending == 0
	prompted := c.asked != nil && c.lines != nil
	if prompted { // the crumb is no continuation of the prompt's line
		c.inv.say("")
	}
	if err := c.print(a.item); err != nil {
		return err
	}
	if err := c.take(a.item); err != nil {
		return err
	}
	c.settle()
	if prompted && c.asked != nil {
		c.inv.promptFor(*c.asked)
	}
	return nil
}

// settle takes the prompt off whose question is not open any more: what is typed
// next was meant for it and answers nothing.
func (c *conversation) settle() {
	if c.asked == nil || slices.ContainsFunc(c.open, func(q question) bool { return q.CheckpointID == c.asked.CheckpointID }) {
		return
	}
	c.asked = nil
	if c.lines != nil {
		c.stale = true
		c.inv.say("That question is settled. Press Enter to go on.")
	}
}

// pick is the question to ask next, nil when there is none for who sits here.
func (c *conversation) pick() *question {
	if c.auto == nil && c.lines == nil {
		return nil
	}
	var first *question
	for i := range c.open {
		q := &c.open[i]
		if c.later[q.CheckpointID] || c.answered[q.CheckpointID] {
			continue
		}
		if q.Kind == crumbs.KindApproval {
			return q
		}
		if first == nil {
			first = q
		}
	}
	return first
}

// next asks the next question, unless one is being asked.
func (c *conversation) next(ctx context.Context) error {
	q := c.pick()
	if q == nil || c.asked != nil || c.stale {
		return nil
	}
	if c.auto != nil {
		return c.send(ctx, *q, c.auto(*q))
	}
	asked := *q
	c.asked = &asked
	c.inv.ask(asked)
	c.lines.Want()
	return nil
}

func (c *conversation) typed() <-chan terminal.Typed {
	if c.lines == nil {
		return nil
	}
	return c.lines.Got()
}

// said takes what a person typed. The end of input leaves every question open.
func (c *conversation) said(ctx context.Context, typed terminal.Typed) error {
	if typed.Err != nil {
		if errors.Is(typed.Err, terminal.ErrLineTooLong) {
			c.inv.say("crumb: %v", typed.Err)
		}
		c.lines, c.asked, c.stale = nil, nil, false
		return nil
	}
	if c.stale || c.asked == nil {
		c.stale = false
		return c.next(ctx)
	}
	q := *c.asked
	a, hint := parseAnswer(q, typed.Line)
	if hint != "" {
		c.inv.say("%s", hint)
		c.lines.Want()
		return nil
	}
	c.asked = nil
	return c.send(ctx, q, a)
}

// send sends an answer. Whatever another made of the question first stands in
// the run's crumbs; an answer that does not fit is asked for again.
func (c *conversation) send(ctx context.Context, q question, a client.Answer) error {
	a.ArgsHash, a.By, a.Via = q.ArgsHash, principal(), decision.ViaCLI
	err := c.answer(ctx, q.CheckpointID, a)
	switch code := fault.CodeOf(err); {
	case err == nil:
	case code == fault.CheckpointNotFound:
		c.inv.warn(err)
	case code == fault.DecisionInvalid && c.auto == nil, code == fault.InvalidArguments && c.auto == nil:
		c.inv.warn(err)
		return c.next(ctx)
	case code == fault.PermissionsViolation && c.auto == nil: // somebody else answers; the run waits as it did
		c.inv.warn(err)
		c.inv.refused, c.lines = true, nil
		return nil
	default:
		return err
	}
	c.answered[q.CheckpointID], c.suspended = true, false
	return nil
}
