package worker

import (
	"context"
	"encoding/json"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/approvals/internal/question"
)

// Tokens of crumb.<agent>.<run>.human.<what>.
const (
	tokenAgent = 1
	tokenRun   = 2
	tokenWhat  = 4
)

// Handle works on one human crumb of the durable consumer. What can never be
// read goes to the dead letters.
func (r *Register) Handle(ctx context.Context, d *mesh.Delivery) error {
	_, err := r.take(ctx, d.Subject, d.Header, d.Data)
	if unreadable(err) {
		return mesh.Dead(crumbs.RunID(crumbs.Token(d.Subject, tokenRun)), err)
	}
	return err
}

// unreadable reports whether no repetition can mend err: the body is not what
// its subject says, or the object of its claim check is gone.
func unreadable(err error) bool {
	switch fault.CodeOf(err) {
	case fault.InvalidMessage, fault.InvalidName, fault.RunNotFound, fault.PayloadTooLarge:
		return true
	default:
		return false
	}
}

// take brings one human crumb into its row, which it returns. It returns
// INVALID_MESSAGE for a body that is not what its subject says, RUN_NOT_FOUND
// when a claim check points at nothing.
func (r *Register) take(ctx context.Context, subject string, header nats.Header, data []byte) (decision.Approval, error) {
	event, err := crumbs.ReadEvent(header, data)
	if err != nil {
		return decision.Approval{}, err
	}
	body, err := r.asked.CheckOut(ctx, event.Data)
	if err != nil {
		return decision.Approval{}, err
	}
	if crumbs.Token(subject, tokenWhat) == "required" {
		return r.required(ctx, subject, body, reference(event.Data), event.TraceParent)
	}
	return r.resumed(ctx, subject, body)
}

// reference returns the claim check of a body that CheckOut could read.
func reference(body json.RawMessage) *crumbs.DataRef {
	var base crumbs.Base
	if json.Unmarshal(body, &base) != nil {
		return nil
	}
	return base.DataRef
}

func (r *Register) required(ctx context.Context, subject string, body json.RawMessage, ref *crumbs.DataRef, traceParent string) (decision.Approval, error) {
	var q crumbs.HumanRequired
	if err := crumbs.Decode(crumbs.TypeHumanRequired, body, &q); err != nil {
		return decision.Approval{}, err
	}
	if err := agree(subject, q.Base, q.CheckpointID); err != nil {
		return decision.Approval{}, err
	}
	q, err := r.shorten(ctx, q, ref)
	if err != nil {
		return decision.Approval{}, err
	}
	return r.update(ctx, q.CheckpointID, func(row decision.Approval) (decision.Approval, bool, error) {
		row, changed := question.Required(row, q)
		if changed {
			row.TraceParent = traceParent
		}
		return row, changed, nil
	})
}

func (r *Register) resumed(ctx context.Context, subject string, body json.RawMessage) (decision.Approval, error) {
	var b crumbs.HumanResumed
	if err := crumbs.Decode(crumbs.TypeHumanResumed, body, &b); err != nil {
		return decision.Approval{}, err
	}
	if err := agree(subject, b.Base, b.CheckpointID); err != nil {
		return decision.Approval{}, err
	}
	return r.update(ctx, b.CheckpointID, func(row decision.Approval) (decision.Approval, bool, error) {
		row, changed := question.Resumed(row, b)
		return row, changed, nil
	})
}

// agree checks that a crumb speaks of the run and agent on whose subject only
// the orchestrator may write: it cannot touch another run's question.
func agree(subject string, base crumbs.Base, id crumbs.CheckpointID) error {
	agent, run := crumbs.AgentID(crumbs.Token(subject, tokenAgent)), crumbs.RunID(crumbs.Token(subject, tokenRun))
	if base.RunID != run || base.AgentID != agent || id.Run() != run {
		return fault.New(fault.InvalidMessage, "%s: expected a question of agent %s and run %s, got agent %s, run %s, checkpoint %s", subject, agent, run, base.AgentID, base.RunID, id)
	}
	return nil
}

// shorten keeps a row small enough for its bucket and for a reply: of a question
// over mesh.InlineMax the row keeps what a list shows, and ref, the claim check
// of its crumb. A body just under the limit may grow by escaping; it is put aside
// here.
func (r *Register) shorten(ctx context.Context, q crumbs.HumanRequired, ref *crumbs.DataRef) (crumbs.HumanRequired, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return q, fault.Wrap(fault.InvalidMessage, err, "the question %s does not encode", q.CheckpointID)
	}
	if len(body) <= mesh.InlineMax {
		return q, nil
	}
	if ref == nil {
		ref = &crumbs.DataRef{Object: mesh.BlobName(q.RunID, body), Bytes: int64(len(body))}
		if err := r.kept.Put(ctx, ref.Object, body); err != nil {
			return q, err
		}
	}
	q.DataRef = ref
	q.Args, q.Schema, q.AnswerSchema, q.Prompt = json.RawMessage(`{}`), json.RawMessage(`{}`), nil, ""
	return q, nil
}

// whole returns a question with everything shorten put aside.
func (r *Register) whole(ctx context.Context, q crumbs.HumanRequired) (crumbs.HumanRequired, error) {
	if q.DataRef == nil {
		return q, nil
	}
	short, err := json.Marshal(q)
	if err != nil {
		return q, fault.From(err)
	}
	body, err := r.asked.CheckOut(ctx, short)
	if fault.CodeOf(err) == fault.RunNotFound {
		body, err = r.kept.CheckOut(ctx, short)
	}
	if err != nil {
		return q, err
	}
	var full crumbs.HumanRequired
	err = crumbs.Decode(crumbs.TypeHumanRequired, body, &full)
	return full, err
}
