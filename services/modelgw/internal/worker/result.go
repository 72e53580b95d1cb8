package worker

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/turn"
)

const (
	serviceName = "modelgw"
	storeRetry  = 500 * time.Millisecond // between two tries to put a large result aside
)

// Finish reasons of schemas/common.v1.json.
const (
	finishStop      = "stop"
	finishToolCalls = "tool-calls"
	finishOther     = "other"
)

func finishReasons() []string {
	return []string{finishStop, finishToolCalls, "length", "content-filter", finishOther}
}

// result is what every result of this request has.
func (j *job) result(status string) crumbs.ModelResult {
	return crumbs.ModelResult{
		Type: crumbs.TypeModelResult, RunID: j.call.RunID, CallID: j.call.CallID, Step: j.call.Step, Attempt: j.call.Attempt,
		Status: status, Model: j.call.Model,
	}
}

func (j *job) cancelled() crumbs.ModelResult { return j.result(crumbs.StatusCancelled) }

func (j *job) failed(e *fault.Error, retryable bool) crumbs.ModelResult {
	r := j.result(crumbs.StatusError)
	r.Error, r.Retryable = e, retryable
	return r
}

// succeeded makes an answer of any provider fit the wire.
func (j *job) succeeded(a *turn.Answer) crumbs.ModelResult {
	parts, calls := slices.Clone(a.Parts), 0
	for i := range parts {
		switch p := &parts[i]; p.Type {
		case crumbs.PartReasoning:
			if p.Provider == "" {
				p.Provider = j.call.Model.Provider
			}
		case crumbs.PartToolCall:
			if p.ToolName == "" {
				return j.failed(fault.New(fault.ModelError, "provider %s asked for a tool without a name", j.call.Model.Provider), true)
			}
			p.ToolCallID, p.Args = crumbs.ToolCallID(j.call.RunID, j.call.Step, calls), wireArgs(p.Args)
			calls++
		}
	}
	r := j.result(crumbs.StatusOK)
	r.Message = &crumbs.Message{Role: crumbs.RoleAssistant, Parts: parts}
	if parts == nil {
		r.Message.Parts = []crumbs.Part{}
	}
	r.FinishReason, r.Usage, r.Cost, r.ResponseID = finishReason(a.FinishReason, calls), a.Usage, a.Cost, a.ResponseID
	if a.Model != "" {
		r.Model.Model = a.Model
	}
	return r
}

// wireArgs keeps what a model sent as arguments: text that is no JSON becomes a
// JSON string, which the orchestrator blocks as invalid-args and shows the model.
func wireArgs(args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return json.RawMessage(`{}`)
	}
	if json.Valid(args) {
		return args
	}
	text, err := json.Marshal(string(args))
	if err != nil { // a string always marshals
		return json.RawMessage(`""`)
	}
	return text
}

func finishReason(said string, calls int) string {
	switch {
	case said == "" && calls > 0:
		return finishToolCalls
	case said == "":
		return finishStop
	case slices.Contains(finishReasons(), said):
		return said
	}
	return finishOther
}

// answer stores the one result of an attempt and repeats until it is stored. It
// fails with SHUTTING_DOWN only: then another gateway answers.
func (w *Worker) answer(ctx context.Context, j *job, r crumbs.ModelResult) error {
	body, err := json.Marshal(r)
	if err != nil {
		return w.replace(ctx, j, r, fault.Wrap(fault.ModelError, err, "provider %s sent an answer that is not JSON", j.call.Model.Provider))
	}
	if len(body) > answerBytesMax {
		return w.replace(ctx, j, r, fault.New(fault.PayloadTooLarge, "the answer of provider %s has %d bytes > limit %d; lower maxOutputTokens", j.call.Model.Provider, len(body), answerBytesMax))
	}
	short, object, err := w.checkIn(ctx, j, body)
	if err != nil {
		return err
	}
	event := crumbs.Event{
		ID: j.key(), Source: crumbs.Source(serviceName), Type: crumbs.CEType(crumbs.TypeModelResult),
		Subject: "run/" + string(r.RunID), Time: time.Now(), RunID: r.RunID, AgentID: j.call.AgentID, SessionID: j.call.SessionID,
		TraceParent: j.event.TraceParent, TraceState: j.event.TraceState, DataRef: object, Data: short,
	}
	msg, err := event.Message(crumbs.ModelResultSubject(j.queue, r.CallID, r.Attempt))
	if err != nil {
		return err
	}
	mesh.InjectTrace(ctx, msg)
	if err := w.conn.PublishOnce(ctx, msg); err != nil {
		return err
	}
	w.answered.Put(j.key(), j.sequence, 1)
	return nil
}

// replace answers with why the real result cannot be sent.
func (w *Worker) replace(ctx context.Context, j *job, r crumbs.ModelResult, e *fault.Error) error {
	small := j.failed(e, false)
	small.Usage, small.Cost, small.Deltas, small.DurationMs, small.FirstTokenMs = r.Usage, r.Cost, r.Deltas, r.DurationMs, r.FirstTokenMs
	return w.answer(ctx, j, small)
}

// checkIn puts a large result aside, and tries until it is stored or ctx ends.
func (w *Worker) checkIn(ctx context.Context, j *job, body json.RawMessage) (json.RawMessage, string, error) {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, "", fault.Wrap(fault.ShuttingDown, ctx.Err(), "stopped while a result was put aside")
		case <-t.C:
		}
		short, object, err := w.conn.Blobs(crumbs.AreaModel(j.queue)).CheckIn(ctx, j.call.RunID, body, mesh.BaseFields()...)
		if err == nil || !transient(err) {
			return short, object, err
		}
		w.conn.Log.WarnContext(ctx, "result not put aside, repeating", "run", j.call.RunID, "error", err)
		t.Reset(storeRetry)
	}
}
