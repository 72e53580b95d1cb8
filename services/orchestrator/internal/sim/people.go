package sim

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

func readCrumb(m *message) sighted {
	c := sighted{at: m.stored}
	if err := json.Unmarshal(m.body.([]byte), &c); err != nil {
		panic("sim: a crumb does not decode: " + err.Error())
	}
	return c
}

// crumbStored is what follows crumbs: the witness, and approvals.
func (w *world) crumbStored(m *message) {
	run, c := crumbs.RunID(crumbs.Token(m.subject, 2)), readCrumb(m)
	w.seen.crumbs[run] = append(w.seen.crumbs[run], c)
	w.logf("    %s %d %s %s %s", run, c.Seq, c.Type, c.ToolCallID, c.Outcome)
	if c.Type != crumbs.TypeHumanRequired || fate(c.ToolCallID, "silent")%10 == 0 {
		return
	}
	if _, known := w.seen.decided[c.ToolCallID]; known {
		return
	}
	w.after(w.between(50*time.Millisecond, 4*time.Minute), func() { w.approve(run, c, decision(run, c)) })
	if fate(c.ToolCallID, "twice")%5 == 0 { // another person, who should lose
		other := decision(run, c)
		other.Outcome, other.Response = crumbs.DecideReject, nil
		w.after(4*time.Minute+w.between(0, 20*time.Second), func() { w.approve(run, c, other) })
	}
}

func decision(run crumbs.RunID, c sighted) *crumbs.Decision {
	d := &crumbs.Decision{Type: crumbs.TypeDecision, RunID: run, CheckpointID: c.ToolCallID, ToolCallID: c.ToolCallID, ArgsHash: c.ArgsHash, Outcome: crumbs.DecideApprove}
	if c.Kind == crumbs.KindInput {
		d.Outcome, d.Response = crumbs.DecideAnswer, json.RawMessage(`false`)
	}
	if fate(c.ToolCallID, "rejects")%7 == 0 {
		d.Outcome, d.Response = crumbs.DecideReject, nil
	}
	return d
}

// approve publishes an answer until the question has resumed. Approvals has no
// faults here: what it accepted is in its bucket.
func (w *world) approve(run crumbs.RunID, question sighted, d *crumbs.Decision) {
	for _, c := range w.seen.crumbs[run] {
		if c.Type == crumbs.TypeHumanResumed && c.ToolCallID == question.ToolCallID {
			return
		}
	}
	subject := crumbs.DecisionSubject(run, d.CheckpointID)
	_, _ = w.inbox.publish(publication{subject: subject, fence: subject, body: core.Event{Kind: core.Decided, Decision: d}})
	w.after(publishAgain, func() { w.approve(run, question, d) })
}

// client asks for a run, perhaps twice, and perhaps cancels it.
func (w *world) client(i int) {
	id := crumbs.RunID(fmt.Sprintf("run_%d", i))
	request := core.Event{Kind: core.Requested, Request: &core.Request{Input: json.RawMessage(`"go"`), Run: core.Run{ID: id, Agent: "agent",
		Session: "ses", Revision: "rev", ToolSet: "set", MaxSteps: stepsMax}}}
	w.seen.requested[id] = true
	ask := func() {
		_, _ = w.requests.publish(publication{subject: crumbs.RequestSubject("agent"), id: string(id), body: request})
	}
	at := w.between(0, 20*time.Second)
	w.after(at, ask)
	if w.chance(0.2) {
		w.after(at+w.between(time.Millisecond, 4*time.Minute), ask)
	}
	if !w.chance(w.cfg.Faults.Cancel) {
		return
	}
	wait := w.between(0, 30*time.Second)
	if w.chance(0.3) {
		wait = w.between(-3*time.Millisecond, 3*time.Millisecond)
	}
	cancel := core.Event{Kind: core.Control, Control: &crumbs.RunControl{Type: crumbs.TypeRunControl, RunID: id, ControlID: "ctl", Action: crumbs.ActionCancel}}
	w.after(at+wait, func() { _, _ = w.inbox.publish(publication{subject: crumbs.ControlSubject(id), body: cancel}) })
}
