package sim

import (
	"encoding/json"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

const (
	modelSlots      = 3
	modelFailsOneIn = 13
)

func (w *world) gateway(p *process) {
	for range modelSlots {
		p.spawn(func(t *task) {
			for {
				w.generate(t, w.modelsC.next(t))
			}
		})
	}
}

// generate answers a model call; it takes a claim as an idempotent call does.
func (w *world) generate(t *task, d *delivery) {
	var call crumbs.ModelCall
	if err := json.Unmarshal(d.body.(core.Command).Body, &call); err != nil {
		panic("sim: a command does not decode: " + err.Error())
	}
	key := call.CallID.Attempt(call.Attempt)
	t.line("gateway: received")
	if w.until(call.StartBefore) <= 0 {
		d.ack(t)
		return
	}
	status, cause := crumbs.StatusOK, (*fault.Error)(nil)
	v := verdictRun
	if w.cfg.Rules.ModelClaim {
		var err error
		if v, err = w.begin(t, start{key: key, message: d.seq, effect: crumbs.EffectIdempotent}); err != nil {
			d.nak(t, nakDelay)
			return
		}
	}
	switch v {
	case verdictRun:
		if d.count == 1 {
			w.seen.paid[key]++
		}
		t.sleep(w.between(200*time.Millisecond, 2*time.Second))
		t.line("gateway: called")
	case verdictPoison:
		status, cause = crumbs.StatusError, fault.New(fault.ModelError, "started and never finished")
	case verdictWait:
		d.nak(t, nakDelay)
		return
	default:
		d.ack(t)
		return
	}
	r := &crumbs.ModelResult{Type: crumbs.TypeModelResult, RunID: call.RunID, CallID: call.CallID, Step: call.Step, Attempt: call.Attempt, Status: status, Error: cause, Model: call.Model}
	if cause == nil && fate(key, "fails")%modelFailsOneIn == 0 {
		r.Status, r.Error, r.Retryable = crumbs.StatusError, fault.New(fault.ModelError, "overloaded"), true
	}
	if r.Status == crumbs.StatusOK {
		r.Message = turn(call.RunID, call.Step)
	}
	w.publishOnce(t, d, crumbs.ModelResultSubject(call.Model.Provider, call.CallID, call.Attempt), core.Event{Kind: core.ModelResult, Model: r})
	t.line("gateway: answered")
	d.ack(t)
}
