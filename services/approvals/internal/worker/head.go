package worker

import (
	"context"
	"strconv"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// Headers of a row: what a list and a survey need of the rows that they do not
// show, so that they cost little beside a hundred thousand open questions.
const (
	headStatus  = "crumb-status"
	headCreated = "crumb-created" // unix milliseconds
	headSeq     = "crumb-seq"     // of human:required
)

func head(row decision.Approval) map[string]string {
	return map[string]string{
		headStatus: string(row.Status), headCreated: strconv.FormatInt(row.CreatedAt.UnixMilli(), 10), headSeq: strconv.FormatUint(seq(row), 10),
	}
}

// heads visits what the headers of all rows say whose key matches pattern: ids,
// status, creation and the seq of the question. Rows of older releases say it in
// their value.
func (r *Register) heads(ctx context.Context, pattern string, visit func(decision.Approval)) error {
	var failed error
	err := r.bucket.Heads(ctx, pattern, func(rec mesh.Record) bool {
		var row decision.Approval
		row, failed = r.head(ctx, rec)
		if failed == nil && row.Status != "" {
			visit(row)
		}
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	return err
}

func (r *Register) head(ctx context.Context, rec mesh.Record) (decision.Approval, error) {
	id := crumbs.CheckpointID(rec.Key)
	created, err := strconv.ParseInt(rec.Head(headCreated), 10, 64)
	number, wrong := strconv.ParseUint(rec.Head(headSeq), 10, 64)
	status := decision.Status(rec.Head(headStatus))
	if err != nil || wrong != nil || status == "" {
		return r.Row(ctx, id)
	}
	return decision.Approval{CheckpointID: id, RunID: id.Run(), Status: status, CreatedAt: crumbs.At(time.UnixMilli(created)),
		Checkpoint: &crumbs.HumanRequired{Base: crumbs.Base{Seq: number}}}, nil
}
