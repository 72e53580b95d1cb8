package worker

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry/instrument"
	"github.com/crumbmesh/crumbmesh/services/approvals/internal/question"
)

const (
	// conflictsMax bounds how often a row is read again because another wrote it.
	conflictsMax = 32
	// everyRow matches the keys of all rows: a checkpoint id has three tokens,
	// the marker of a finished rebuild one.
	everyRow = "*.*.*"
)

// Register is the bucket `approvals`: one row a question, keyed by checkpoint id.
type Register struct {
	conn   *mesh.Conn
	bucket *mesh.Bucket
	asked  *mesh.Blobs // bodies of crumbs
	kept   *mesh.Blobs // questions that a row cannot hold and no crumb put aside
	trust  *decision.Verifier

	answers *instrument.Counter
}

// NewRegister returns a handle; trust says whose decisions a rebuild believes.
func NewRegister(conn *mesh.Conn, trust *decision.Verifier) *Register {
	return &Register{conn: conn, bucket: conn.Bucket(crumbs.BucketApprovals), trust: trust,
		asked: conn.Blobs(crumbs.AreaCrumb), kept: conn.Blobs(crumbs.AreaApproval),
		answers: instrument.NewCounter(conn.Meter, instrument.Answers)}
}

// Row reads a row through the leader; one that does not exist has no status.
func (r *Register) Row(ctx context.Context, id crumbs.CheckpointID) (decision.Approval, error) {
	row, _, err := r.read(ctx, id)
	return row, err
}

func (r *Register) read(ctx context.Context, id crumbs.CheckpointID) (decision.Approval, uint64, error) {
	record, err := r.bucket.Get(ctx, string(id))
	if err != nil || !record.Exists() {
		return decision.Approval{}, record.Revision, err
	}
	row, err := decode(record.Key, record.Value)
	return row, record.Revision, err
}

func decode(key string, value []byte) (decision.Approval, error) {
	var row decision.Approval
	if err := json.Unmarshal(value, &row); err != nil {
		return row, fault.Wrap(fault.InternalError, err, "the approvals row %s does not decode", key)
	}
	return row, nil
}

// update moves a row by compare-and-set: change is made again on what another
// wrote in between. A change that changes nothing writes nothing.
func (r *Register) update(ctx context.Context, id crumbs.CheckpointID, change func(decision.Approval) (decision.Approval, bool, error)) (decision.Approval, error) {
	for range conflictsMax {
		row, revision, err := r.read(ctx, id)
		if err != nil {
			return row, err
		}
		next, changed, err := change(row)
		if err != nil || !changed {
			return next, err
		}
		value, err := json.Marshal(next)
		if err != nil {
			return row, fault.Wrap(fault.InternalError, err, "the approvals row %s does not encode", id)
		}
		_, err = r.bucket.Set(ctx, mesh.Write{Key: string(id), Value: value, Revision: revision, TTL: question.TTL(next, time.Now()), Header: head(next)})
		if !errors.Is(err, mesh.ErrConflict) {
			return next, err
		}
	}
	return decision.Approval{}, fault.New(fault.Unavailable, "the row of checkpoint %s is written by too many at once; try again", id)
}

// scan visits all rows whose key matches pattern, in the order of their last
// write. Its bound is ctx, not mesh.ListMax: a new question must be found behind
// any number of settled ones.
func (r *Register) scan(ctx context.Context, pattern string, visit func(decision.Approval)) error {
	return r.bucket.List(ctx, pattern, func(record mesh.Record) bool {
		row, err := decode(record.Key, record.Value)
		if err != nil {
			r.conn.Log.Error("row", "key", record.Key, "error", err)
			return true
		}
		visit(row)
		return true
	})
}
