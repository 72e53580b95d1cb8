package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// orchestrator is one replica: its memory is lost in a crash.
type orchestrator struct {
	*world
	cache     map[crumbs.RunID]*entry
	locks     locks
	fullUntil time.Duration
}

// entry is a run's record as this process knows it.
type entry struct {
	state     core.State
	revision  uint64
	delivered bool // this process saw the Outbox delivered
	cached    bool
}

// incoming is a message of the orchestrator.
type incoming struct {
	*delivery
	event core.Event
	run   crumbs.RunID
	read  bool // the record was taken for absent once
}

// slots of each consumer in a process.
const (
	requestSlots = 2
	eventSlots   = 3
)

func (w *world) orchestrator(p *process) {
	o := &orchestrator{world: w, cache: map[crumbs.RunID]*entry{}, locks: locks{}}
	serve := func(c *consumer, slots int) {
		for range slots {
			p.spawn(func(t *task) {
				for {
					o.handle(t, c.next(t))
				}
			})
		}
	}
	serve(w.requestsC, requestSlots)
	serve(w.eventsC, eventSlots)
	serve(w.timersC, 1)
}

// decode builds the event of a message; At is the stored time, a timer's its own.
func (o *orchestrator) decode(d *delivery) *incoming {
	e := d.body.(core.Event)
	in := &incoming{delivery: d, event: e}
	if e.Kind != core.TimerDue {
		in.event.At = o.at(d.stored)
	}
	switch e.Kind {
	case core.Requested:
		in.run = e.Request.Run.ID
	case core.ModelResult:
		in.run = e.Model.RunID
	case core.CallResult:
		in.run = e.Result.RunID
	case core.Decided:
		in.run = e.Decision.RunID
	case core.TimerDue:
		in.run = e.Timer.RunID
	case core.Control:
		in.run = e.Control.RunID
	}
	return in
}

// answers reports whether this message settles the command of an intent.
func (in *incoming) answers(i core.Intent) bool {
	switch in.event.Kind {
	case core.ModelResult:
		return i.Kind == core.SendModel && i.Call == in.event.Model.CallID && i.Attempt == in.event.Model.Attempt
	case core.CallResult:
		return i.Kind == core.SendTool && i.Call == in.event.Result.CallID && i.Attempt == in.event.Result.Attempt
	case core.TimerDue:
		return i.Kind == core.SetTimer && i.V == in.event.Timer.V
	}
	return false
}

func (o *orchestrator) handle(t *task, d *delivery) {
	in := o.decode(d)
	if in.event.Kind == core.Requested && o.now < o.fullUntil {
		d.nak(t, fullPause)
		return
	}
	o.logf("%s: %s %s, delivery %d", t.id(), in.event.Kind, in.subject, in.count)
	t.line("receive")
	o.locks.lock(t, string(in.run))
	err := o.decideUntilWritten(t, in)
	o.locks.unlock(o.world, string(in.run))
	switch {
	case errors.Is(err, errFull):
		o.fullUntil = o.now + fullPause
		d.nak(t, nakDelay)
	case errors.Is(err, errWaits):
		d.nak(t, inboxFirst)
	case err != nil:
		o.logf("%s: %s %s is not done: %v", t.id(), in.event.Kind, in.run, err)
		d.nak(t, nakDelay)
	default:
		t.line("acknowledge")
		d.ack(t)
	}
}

func (o *orchestrator) decideUntilWritten(t *task, in *incoming) error {
	for range conflictsMax {
		again, err := o.step(t, in)
		if err != nil || !again {
			return err
		}
	}
	return errConflict
}

// step is one pass of the loop; again asks for another one on fresh state.
func (o *orchestrator) step(t *task, in *incoming) (again bool, err error) {
	e, err := o.load(t, in)
	if err != nil {
		return false, err
	}
	t.line("read")
	if err := o.help(t, e, in); err != nil {
		return false, err
	}
	t.line("helped")
	next, err := o.decide(t, e, in)
	if err != nil {
		return false, err
	}
	if next.Decision == e.state.Decision {
		if e.cached && o.cfg.Rules.FreshRead {
			delete(o.cache, in.run)
			return true, nil
		}
		if e.state.Exists() {
			o.keep(in.run, e)
		}
		return false, o.trim(t, e)
	}
	o.logf("%s: decides %s: %s after %d", t.id(), in.subject, next.Status, e.state.Decision)
	t.line("decided")
	written, err := o.write(t, e, next)
	if errors.Is(err, errConflict) {
		delete(o.cache, in.run)
		return true, nil
	}
	if err != nil {
		delete(o.cache, in.run)
		return false, err
	}
	o.keep(in.run, written)
	t.line("written")
	if err := o.deliver(t, written, in); err != nil {
		return false, err
	}
	t.line("delivered")
	return false, o.trim(t, written)
}

func (o *orchestrator) keep(run crumbs.RunID, e *entry) {
	kept := *e
	kept.cached = true
	o.cache[run] = &kept
}

func (o *orchestrator) load(t *task, in *incoming) (*entry, error) {
	if e, ok := o.cache[in.run]; ok {
		copied := *e
		return &copied, nil
	}
	if in.event.Kind == core.Requested && in.count == 1 && !in.read {
		in.read = true
		return &entry{cached: true}, nil
	}
	v, err := get(t, o.runs, string(in.run))
	return &entry{state: v.v, revision: v.revision}, err
}

func (o *orchestrator) help(t *task, e *entry, in *incoming) error {
	if !e.state.Exists() || e.delivered || !o.cfg.Rules.Help {
		return nil
	}
	if len(e.state.Outbox.Crumbs) > 0 && o.cfg.Rules.Fence {
		last, err := o.lastCrumb(t, in.run)
		if err != nil {
			return err
		}
		e.state.Fence = last
		if last.Seq >= e.state.Seq {
			e.delivered = true
			return nil
		}
	}
	return o.deliver(t, e, in)
}

// decide completes the event with claims, and looks into INBOX first.
func (o *orchestrator) decide(t *task, e *entry, in *incoming) (core.State, error) {
	event := in.event
	if o.cfg.Rules.Now {
		event.Now = o.at(o.now)
	}
	if event.Kind == core.Control && !e.state.Exists() && !o.cfg.Rules.Tombstone {
		return e.state, nil
	}
	if event.Kind != core.Requested && e.state.Exists() && !e.state.Status.Ended() {
		settles := core.Settles(o.pinned, e.state, event)
		if event.Kind == core.TimerDue && o.cfg.Rules.InboxFirst {
			if err := o.inboxFirst(t, settles); err != nil {
				return core.State{}, err
			}
		}
		var err error
		if event.Claims, err = o.revoke(t, settles); err != nil {
			return core.State{}, err
		}
		event.Blobs = o.blobs
	}
	return core.Decide(o.pinned, e.state, event)
}

func (o *orchestrator) inboxFirst(t *task, settles []core.Pending) error {
	for _, p := range settles {
		subject := crumbs.ToolResultSubject(p.Queue, p.Call, p.Attempt)
		switch {
		case p.Model:
			subject = crumbs.ModelResultSubject(p.Queue, p.Call, p.Attempt)
		case p.Attempt == 0:
			subject = crumbs.DecisionSubject(p.Call.Run(), p.Call)
		}
		waits, err := t.request("last "+subject, func() (any, error) { return o.inbox.tail(subject) > 0, nil })
		if err != nil {
			return err
		}
		if waits.(bool) {
			return errWaits
		}
	}
	return nil
}

func (o *orchestrator) revoke(t *task, settles []core.Pending) (map[string]bool, error) {
	found := map[string]bool{}
	if !o.cfg.Rules.Revoke {
		return found, nil
	}
	for _, p := range settles {
		if p.Attempt == 0 {
			continue
		}
		started, err := o.revokeClaim(t, p.Key())
		if err != nil {
			return nil, err
		}
		found[p.Key()] = started || -o.until(p.SentAt) > claimTTL
	}
	return found, nil
}

func (o *orchestrator) write(t *task, e *entry, next core.State) (*entry, error) {
	for _, b := range next.Blobs {
		o.blobs[b.Name] = b.Data
	}
	next.Blobs, next.Fence = nil, e.state.Fence
	var ttl time.Duration
	if next.Run.Tombstone {
		ttl = tombstoneTTL
	}
	rev, err := t.request("write "+string(next.Run.ID), func() (any, error) {
		rev, err := o.runs.set(string(next.Run.ID), next, e.revision, ttl)
		if err == nil {
			for _, i := range next.Outbox.Intents {
				o.seen.decisions[i.Call.Attempt(i.Attempt)] = act{o.now, t.id()}
			}
		}
		return rev, err
	})
	if err != nil {
		return nil, err
	}
	return &entry{state: next, revision: rev.(uint64)}, nil
}

// deliver sends the Outbox: commands, then crumbs one after the other.
func (o *orchestrator) deliver(t *task, e *entry, in *incoming) error {
	s := e.state
	for _, intent := range s.Outbox.Intents {
		if in.answers(intent) {
			continue
		}
		if err := o.send(t, s, intent); err != nil {
			return err
		}
		t.line("command")
	}
	for _, c := range s.Outbox.Crumbs {
		fence, err := o.append(t, s.Run.ID, e.state.Fence, s.Outbox.Crumbs[0].Seq, c)
		if err != nil {
			return err
		}
		e.state.Fence = fence
		t.line("crumb")
	}
	e.delivered = true
	o.keep(s.Run.ID, e)
	return nil
}

// append stores crumb c on top of the one before it; first is the number of the
// Outbox's first.
func (o *orchestrator) append(t *task, run crumbs.RunID, fence core.Fence, first uint64, c core.Crumb) (core.Fence, error) {
	body := c.Body.Inline
	if c.Body.Ref != "" {
		body = o.blobs[c.Body.Ref]
	}
	p := publication{subject: crumbs.CrumbSubject("agent", run, c.Type), body: []byte(body), id: crumbs.CrumbID(run, c.Seq)}
	if !o.cfg.Rules.Fence {
		_, err := t.request("crumb", func() (any, error) { return o.crumbs.publish(p) })
		return core.Fence{Seq: c.Seq}, err
	}
	p.id, p.fence = "", string(run)
	for fence.Seq < c.Seq {
		if fence.Seq+1 == c.Seq {
			p.expect = fence.Stream
			seq, err := t.request("crumb", func() (any, error) { return o.crumbs.publish(p) })
			if err == nil {
				return core.Fence{Seq: c.Seq, Stream: seq.(uint64)}, nil
			}
		}
		last, err := o.lastCrumb(t, run)
		if err != nil {
			return fence, err
		}
		if last.Seq+1 < first {
			return fence, fmt.Errorf("crumb %d is missing before %d", last.Seq+1, first)
		}
		fence = last
	}
	return fence, nil
}

func (o *orchestrator) lastCrumb(t *task, run crumbs.RunID) (core.Fence, error) {
	f, err := t.request("last crumb", func() (any, error) {
		seq := o.crumbs.tail(string(run))
		if seq == 0 {
			return core.Fence{}, nil
		}
		return core.Fence{Seq: readCrumb(o.crumbs.messages[seq]).Seq, Stream: seq}, nil
	})
	if err != nil {
		return core.Fence{}, err
	}
	return f.(core.Fence), nil
}

// send publishes the command of an intent, unless it is void.
func (o *orchestrator) send(t *task, s core.State, intent core.Intent) error {
	cmd, ok, err := core.Render(o.pinned, s, intent, func(name string) ([]byte, error) { return o.blobs[name], nil })
	if err != nil || !ok || !cmd.StartBefore.IsZero() && o.until(cmd.StartBefore) <= 0 {
		return err
	}
	_, err = t.request(cmd.Subject, func() (any, error) { return nil, o.publish(s.Run.ID, intent, cmd) })
	if intent.Kind == core.SendCancel {
		return nil // core NATS: nobody knows whether it came
	}
	return err
}

// publish is what the server does with a command.
func (o *orchestrator) publish(run crumbs.RunID, intent core.Intent, cmd core.Command) error {
	p := publication{subject: cmd.Subject, id: cmd.MessageID, body: cmd, ttl: o.until(cmd.StartBefore)}
	if cmd.StartBefore.IsZero() {
		p.ttl = 0
	}
	var err error
	switch intent.Kind {
	case core.SendModel:
		_, err = o.modelCalls.publish(p)
	case core.SendTool:
		_, err = o.toolCalls.publish(p)
	case core.SendCancel:
		o.interrupt(run, intent.Calls)
	case core.SetTimer:
		o.schedule(run, intent, cmd)
	}
	return err
}

// schedule sets a timer; the same subject again replaces it, with the same time.
func (o *orchestrator) schedule(run crumbs.RunID, intent core.Intent, cmd core.Command) {
	if !o.cfg.Rules.Timers {
		return
	}
	due := core.Event{Kind: core.TimerDue, At: cmd.FireAt, Timer: &crumbs.TimerDue{Type: crumbs.TypeTimerDue, RunID: run, V: intent.V, At: cmd.FireAt}}
	o.after(o.until(cmd.FireAt), func() { _, _ = o.timers.publish(publication{subject: cmd.Target, body: due}) })
}

// trim writes the record of an ended run once more.
func (o *orchestrator) trim(t *task, e *entry) error {
	s := e.state
	if !s.Status.Ended() || s.Run.Tombstone || len(s.Outbox.Crumbs)+len(s.Outbox.Intents) == 0 {
		return nil
	}
	final := s.Final()
	rev, err := set(t, o.runs, string(s.Run.ID), final, e.revision, runTTL)
	if err != nil {
		delete(o.cache, s.Run.ID)
		if errors.Is(err, errConflict) {
			return nil
		}
		return err
	}
	o.keep(s.Run.ID, &entry{state: final, revision: rev, delivered: true})
	t.line("trimmed")
	return nil
}
