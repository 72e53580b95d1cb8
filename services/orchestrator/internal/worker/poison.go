package worker

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs/jscrumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// undecodable handles a record that cannot be read: a newer one waits for a
// newer process; bytes that are no record are kept as a dead letter and replaced
// by a terminal record made from the headers alone.
func (w *Worker) undecodable(ctx context.Context, in *incoming, e *entry, cause error) (bool, error) {
	if e == nil || fault.CodeOf(cause) == fault.StateTooNew {
		return false, cause
	}
	w.log.ErrorContext(ctx, "record does not decode", "run", in.run, "error", cause)
	if err := w.bury(ctx, in.run, e.raw, e.revision, cause); err != nil {
		return false, err
	}
	get := func(name string) string {
		if v := e.header[name]; len(v) > 0 {
			return v[0]
		}
		return ""
	}
	agentID := crumbs.AgentID(get(core.HeadAgent))
	if crumbs.CheckAgentID(string(agentID)) != nil {
		return false, mesh.Dead(in.run, fault.Wrap(fault.InternalError, cause, "the record of run %s names no agent", in.run))
	}
	last, err := jscrumbs.Last(ctx, w.conn, crumbs.CrumbFilter(agentID, in.run))
	if err != nil {
		return false, err
	}
	e.state = core.State{Run: core.Run{ID: in.run, Agent: agentID, Session: crumbs.SessionID(get(core.HeadSession))}, Seq: last.Seq,
		Fence: core.Fence{Seq: last.Seq, Stream: last.Stream}}
	if ms, err := strconv.ParseInt(get(core.HeadStarted), 10, 64); err == nil {
		e.state.Run.StartedAt = crumbs.At(time.UnixMilli(ms))
	}
	written, err := w.write(ctx, e, w.terminal(e, in, crumbs.At(in.delivery.Stored)))
	if err != nil {
		return false, err
	}
	w.measured.replaced(ctx, written.state)
	if err := w.deliver(ctx, written, nil); err != nil {
		return false, err
	}
	return false, w.trim(ctx, written)
}

// bury keeps a record that is about to be replaced by a terminal one.
func (w *Worker) bury(ctx context.Context, run crumbs.RunID, record []byte, revision uint64, cause error) error {
	_, err := w.conn.DeadLetter(ctx, "KV_"+crumbs.BucketRuns, run, &mesh.Delivery{Subject: "$KV." + crumbs.BucketRuns + "." + string(run), Sequence: revision, Data: record}, cause)
	return err
}

// terminal is the record that ends a run which cannot be decided about.
func (w *Worker) terminal(e *entry, in *incoming, at crumbs.Time) core.State {
	s := e.state
	if s.Run.StartedAt.IsZero() {
		s.Run.StartedAt = at
	}
	cause := fault.New(fault.InternalError, "the run's record could not be decided about; it was kept among the dead letters")
	s.Decision, s.Seq, s.Status = s.Decision+1, s.Seq+1, core.Failed
	s.Run.EndedAt, s.Result, s.Timer.At = at, &core.Result{Error: cause, Steps: s.Step}, crumbs.Time{}
	body, err := json.Marshal(&crumbs.AgentError{Base: crumbs.Base{Type: crumbs.TypeAgentError, RunID: in.run, AgentID: s.Run.Agent, SessionID: s.Run.Session,
		Seq: s.Seq, Timestamp: at.UnixMilli(), Step: s.Step}, Error: cause, Steps: s.Step, DurationMs: at.Sub(s.Run.StartedAt.Time).Milliseconds()})
	if err != nil {
		panic("worker: a terminal crumb does not encode: " + err.Error())
	}
	s.Outbox = core.Outbox{Crumbs: []core.Crumb{{Seq: s.Seq, Type: crumbs.TypeAgentError, At: at, Body: core.Value{Inline: body}}},
		Intents: []core.Intent{{Kind: core.SendCancel}}}
	return s.Ended()
}
