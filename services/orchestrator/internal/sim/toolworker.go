package sim

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

const (
	toolSlots   = 2
	holderDelay = time.Second // times the deliveries, up to holderMax
	holderMax   = 10 * time.Second
	poisonOneIn = 9
)

// toolWorker is one process of a group.
type toolWorker struct {
	*world
	busy, finished map[string]bool
}

// execution is a handler that runs.
type execution struct {
	call        crumbs.CallID
	interrupted bool
}

func (w *world) toolWorker(group string) func(*process) {
	return func(p *process) {
		tw := &toolWorker{world: w, busy: map[string]bool{}, finished: map[string]bool{}}
		for range toolSlots {
			p.spawn(func(t *task) {
				for {
					tw.handle(t, w.toolsC[group].next(t))
				}
			})
		}
	}
}

// interrupt is ctl.cancel: it reaches what is in hand at this moment.
func (w *world) interrupt(run crumbs.RunID, calls []crumbs.CallID) {
	for _, e := range w.inHand[run] {
		if len(calls) == 0 {
			e.interrupted = true
		}
		for _, id := range calls {
			e.interrupted = e.interrupted || id == e.call
		}
	}
}

// toolRequest is one delivery of one attempt of a call.
type toolRequest struct {
	*toolWorker
	*task
	d    *delivery
	call crumbs.ToolCall
	key  string
}

func (tw *toolWorker) handle(t *task, d *delivery) {
	r := &toolRequest{toolWorker: tw, task: t, d: d}
	if err := json.Unmarshal(d.body.(core.Command).Body, &r.call); err != nil {
		panic("sim: a command does not decode: " + err.Error())
	}
	r.key = r.call.CallID.Attempt(r.call.Attempt)
	tw.seen.effect[r.call.CallID] = r.call.Effect
	t.line("worker: received")
	switch {
	case tw.finished[r.key]:
		d.ack(t)
		return
	case tw.busy[r.key]:
		d.nak(t, r.delay())
		return
	}
	tw.busy[r.key] = true
	r.work()
	delete(tw.busy, r.key)
}

func (r *toolRequest) delay() time.Duration {
	return min(time.Duration(r.d.count)*holderDelay, holderMax)
}

func (r *toolRequest) work() {
	if r.until(r.call.StartBefore) <= 0 && !r.owesOutcome() {
		r.d.ack(r.task)
		return
	}
	v, err := r.begin(r.task, start{key: r.key, message: r.d.seq, effect: r.call.Effect, past: r.until(r.call.DeadlineAt) <= 0})
	if err != nil {
		r.d.nak(r.task, nakDelay)
		return
	}
	r.line("worker: claimed")
	switch v {
	case verdictRun:
		r.answer(r.execute())
	case verdictDrop:
		r.d.ack(r.task)
	case verdictWait:
		r.d.nak(r.task, r.delay())
	case verdictUnknown:
		r.answer(crumbs.StatusUnknown, nil)
	case verdictPoison:
		r.answer(crumbs.StatusError, fault.New(fault.ToolLost, "started and never finished"))
	}
}

// owesOutcome reports whether this very message started a call that must not
// happen twice.
func (r *toolRequest) owesOutcome() bool {
	if r.call.Effect != crumbs.EffectOnce {
		return false
	}
	found, err := get(r.task, r.claims, r.key)
	return err != nil || found.v.taken && !found.v.revoked && found.v.message == r.d.seq
}

// execute runs the handler: its effect happens once in it, at any time.
func (r *toolRequest) execute() (string, *fault.Error) {
	w := r.world
	w.seen.starts[r.key] = append(w.seen.starts[r.key], act{w.now, r.id()})
	if w.cfg.Faults.Poison && fate(r.key, "poison")%poisonOneIn == 0 {
		p := r.process
		w.after(0, func() { p.crash(w.between(200*time.Millisecond, 3*time.Second), "poison "+r.key) })
		r.rest()
	}
	e := &execution{call: r.call.CallID}
	w.inHand[r.call.RunID] = append(w.inHand[r.call.RunID], e)
	left := w.between(time.Millisecond, 3*time.Second)
	if w.chance(0.1) {
		left = w.between(10*time.Second, 80*time.Second)
	}
	effect := w.between(0, left)
	for left > 0 && !e.interrupted {
		step := min(left, heartbeat)
		if effect >= 0 && effect < step {
			step = effect
		}
		r.sleep(step)
		left, effect = left-step, effect-step
		switch {
		case e.interrupted:
		case effect == 0:
			effect--
			w.seen.effects[r.key] = append(w.seen.effects[r.key], act{w.now, r.id()})
			w.logf("  EFFECT of %s (%s) by %s", r.key, r.call.Effect, r.id())
			r.line("worker: effect")
		case left > 0:
			r.d.inProgress(r.task)
			e.interrupted = e.interrupted || r.isRevoked()
		}
	}
	if !e.interrupted {
		return crumbs.StatusOK, nil
	}
	w.seen.stopped[r.key] = true
	if r.call.Effect == crumbs.EffectOnce {
		return crumbs.StatusUnknown, nil
	}
	return crumbs.StatusCancelled, nil
}

func (r *toolRequest) isRevoked() bool {
	found, err := get(r.task, r.claims, r.key)
	return err == nil && found.v.revoked
}

// answer stores the one result of the attempt, however long it takes, and lets
// the message go.
func (r *toolRequest) answer(status string, cause *fault.Error) {
	result := &crumbs.ToolResult{Type: crumbs.TypeToolResult, RunID: r.call.RunID, CallID: r.call.CallID, Attempt: r.call.Attempt, Group: r.call.Group,
		Worker: r.id(), Delivery: r.d.count, Status: status, Error: cause}
	if status == crumbs.StatusOK {
		result.Result = json.RawMessage(`{}`)
	}
	subject := crumbs.ToolResultSubject(r.call.Group, r.call.CallID, r.call.Attempt)
	r.publishOnce(r.task, r.d, subject, core.Event{Kind: core.CallResult, Result: result})
	r.finished[r.key] = true
	r.line("worker: answered")
	r.d.ack(r.task)
}

// publishOnce repeats until an answer waits on the subject.
func (w *world) publishOnce(t *task, d *delivery, subject string, e core.Event) {
	for {
		p := publication{subject: subject, body: e, fence: subject}
		_, err := t.request(subject, func() (any, error) {
			if !w.cfg.Rules.ResultOnce {
				p.expect = w.inbox.tail(subject)
			}
			return w.inbox.publish(p)
		})
		if err == nil || errors.Is(err, errConflict) {
			return
		}
		d.inProgress(t)
	}
}
