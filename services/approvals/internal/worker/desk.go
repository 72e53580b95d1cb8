package worker

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/approvals/internal/question"
)

// replyMax bounds the body of a reply, in bytes, below what NATS carries.
const replyMax = 768 << 10

// Desk answers the endpoints `crumbmesh.approvals.*`.
type Desk struct {
	Register  *Register
	Publisher *Publisher
	Key       decision.Key

	// AfterRecord, when set, is called between recording a decision and
	// publishing it; its error ends the request there. Tests crash here.
	AfterRecord func(crumbs.CheckpointID) error
}

// Endpoints lists what mesh.Serve makes a micro service of.
func (d *Desk) Endpoints() []mesh.Endpoint {
	return []mesh.Endpoint{{Name: "list", Handle: d.list}, {Name: "get", Handle: d.get}, {Name: "decide", Handle: d.decide}}
}

func (d *Desk) list(ctx context.Context, body json.RawMessage) (any, error) {
	q, pattern, err := readQuery(body)
	if err != nil {
		return nil, err
	}
	oldest := newPage(q.Limit, math.MaxInt)
	if err := d.Register.heads(ctx, pattern, func(row decision.Approval) {
		if q.Status == "" || row.Status == q.Status {
			oldest.add(row)
		}
	}); err != nil {
		return nil, err
	}
	p := newPage(q.Limit, replyMax)
	p.cut = oldest.cut
	for _, head := range oldest.rows {
		row, err := d.Register.Row(ctx, head.row.CheckpointID)
		if err != nil {
			return nil, err
		}
		if row.Status != "" && (q.Status == "" || row.Status == q.Status) { // it may have moved on meanwhile
			p.add(row)
		}
	}
	return p.reply(), nil
}

func (d *Desk) get(ctx context.Context, body json.RawMessage) (any, error) {
	var s decision.Selection
	if err := json.Unmarshal(body, &s); err != nil {
		return nil, fault.Wrap(fault.InvalidMessage, err, "expected a JSON object {checkpointId}: %v", err)
	}
	if err := crumbs.CheckCallID(s.CheckpointID); err != nil {
		return nil, err
	}
	row, err := d.row(ctx, s.CheckpointID)
	if err != nil || row.Checkpoint == nil || row.Checkpoint.DataRef == nil {
		return row, err
	}
	return d.withWhole(ctx, row)
}

// withWhole returns row with its whole question, or as it is when the question
// is gone or a reply could not hold it: the dataref then says where it stands.
func (d *Desk) withWhole(ctx context.Context, row decision.Approval) (decision.Approval, error) {
	full := row
	q, err := d.Register.whole(ctx, *row.Checkpoint)
	if fault.CodeOf(err) == fault.RunNotFound {
		return row, nil
	}
	if err != nil {
		return row, err
	}
	full.Checkpoint = &q
	if text, err := json.Marshal(full); err != nil || len(text) > replyMax {
		return row, err
	}
	return full, nil
}

// row reads a row, and looks once in CRUMBS for one that is not there yet. It
// returns CHECKPOINT_NOT_FOUND when nothing was asked under that id.
func (d *Desk) row(ctx context.Context, id crumbs.CheckpointID) (decision.Approval, error) {
	row, err := d.Register.Row(ctx, id)
	if err == nil && row.Status == "" {
		row, err = d.Register.Look(ctx, id)
	}
	if err == nil && row.Status == "" {
		err = question.Unknown(id)
	}
	return row, err
}

// decide records the first answer to a question and sends it to the run. Once it
// is recorded the request succeeds: the publisher repeats what this one send
// could not do.
func (d *Desk) decide(ctx context.Context, body json.RawMessage) (any, error) {
	a, err := question.Read(body)
	if err != nil {
		return nil, err
	}
	row, err := d.row(ctx, a.CheckpointID)
	if err != nil {
		return nil, err
	}
	made, err := d.make(ctx, row, a)
	if err != nil {
		return nil, err
	}
	won := false
	row, err = d.Register.update(ctx, a.CheckpointID, func(row decision.Approval) (decision.Approval, bool, error) {
		next, changed := question.Decided(row, made)
		won = changed
		if !changed && !question.Repeats(row, made) {
			return row, false, question.Taken(row)
		}
		return next, changed, nil
	})
	d.Publisher.Watch(a.CheckpointID) // also after an error: the write may have been stored
	if err != nil {
		return nil, err
	}
	if won {
		d.Register.answers.Add(ctx, 1, made.Outcome, made.Via)
		err = d.send(ctx, row)
	}
	return question.Receipt(row), err
}

// make returns the signed decision of an answer. Whoever answers a question that
// is taken hears that first, whatever else is wrong with the answer.
func (d *Desk) make(ctx context.Context, row decision.Approval, a decision.Answer) (crumbs.Decision, error) {
	open := row.Status == decision.StatusOpen
	if !open && row.Decision == nil || row.Checkpoint == nil {
		return crumbs.Decision{}, question.Taken(row)
	}
	q, err := d.Register.whole(ctx, *row.Checkpoint)
	if fault.CodeOf(err) == fault.Unavailable {
		return crumbs.Decision{}, err
	}
	var made crumbs.Decision
	if err == nil {
		made, err = question.Decide(q, a, crumbs.At(time.Now()))
	}
	if err == nil {
		err = d.Key.Sign(&made)
	}
	if err == nil {
		err = checkSize(made)
	}
	if err != nil && !open {
		err = question.Taken(row)
	}
	return made, err
}

// checkSize returns PAYLOAD_TOO_LARGE for a decision that does not fit a message
// beside everything else a row and a call carry.
func checkSize(made crumbs.Decision) error {
	text, err := json.Marshal(made)
	if err != nil {
		return fault.Wrap(fault.InternalError, err, "the decision on %s does not encode", made.CheckpointID)
	}
	if len(text) > mesh.InlineMax {
		return fault.New(fault.PayloadTooLarge, "the answer to %s: %d bytes > limit %d; put large values in a file and answer with its name", made.CheckpointID, len(text), mesh.InlineMax)
	}
	return nil
}

func (d *Desk) send(ctx context.Context, row decision.Approval) error {
	ctx, span := d.startSpan(ctx, row)
	defer span.End()
	if d.AfterRecord != nil {
		if err := d.AfterRecord(row.CheckpointID); err != nil {
			return err
		}
	}
	if err := d.Publisher.Publish(ctx, row); err != nil {
		d.Register.conn.Log.WarnContext(ctx, "decision recorded, not published yet", "checkpoint", row.CheckpointID, "error", err)
	}
	return nil
}
