package worker

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/approvals/internal/question"
)

const (
	// markerKey says that the rows hold what CRUMBS had to tell.
	markerKey = "_built"
	// rebuildInFlight is how many rows a rebuild writes at once.
	rebuildInFlight = 16
)

// EnsureBuilt makes the rows from CRUMBS when the bucket has no marker: it is
// new, or its contents were lost. Decisions that wait in INBOX are adopted; one
// that was lost before it was published must be made again.
func (r *Register) EnsureBuilt(ctx context.Context) error {
	marker, err := r.bucket.Get(ctx, markerKey)
	if err != nil || marker.Exists() {
		return err
	}
	r.conn.Log.InfoContext(ctx, "rebuilding the approvals from CRUMBS")
	if err := r.replayAll(ctx); err != nil {
		return err
	}
	if err := r.adoptAll(ctx); err != nil {
		return err
	}
	value, err := json.Marshal(map[string]crumbs.Time{"at": crumbs.At(time.Now())})
	if err != nil {
		return fault.From(err)
	}
	_, err = r.bucket.Put(ctx, markerKey, value)
	return err
}

// replayAll takes in every human crumb there is; rows do not depend on the order.
func (r *Register) replayAll(ctx context.Context) error {
	g, work := errgroup.WithContext(ctx)
	g.SetLimit(rebuildInFlight)
	err := r.replay(work, crumbs.SubjectHumanCrumbs, func(subject string, header nats.Header, data []byte) {
		g.Go(func() error { return r.takeReadable(work, subject, header, data) })
	})
	if failed := g.Wait(); failed != nil {
		return failed
	}
	return err
}

// takeReadable takes in a crumb unless it can never be read: that one is, or
// will be, a dead letter of the durable consumer, and hides no other.
func (r *Register) takeReadable(ctx context.Context, subject string, header nats.Header, data []byte) error {
	_, err := r.take(ctx, subject, header, data)
	if unreadable(err) {
		r.conn.Log.WarnContext(ctx, "crumb left out of the approvals", "subject", subject, "error", err)
		return nil
	}
	return err
}

// adoptAll looks for decisions of open questions in INBOX.
func (r *Register) adoptAll(ctx context.Context) error {
	g, work := errgroup.WithContext(ctx)
	g.SetLimit(rebuildInFlight)
	err := r.scan(work, everyRow, func(row decision.Approval) {
		if row.Status == decision.StatusOpen {
			g.Go(func() error { return r.adopt(work, row) })
		}
	})
	if failed := g.Wait(); failed != nil {
		return failed
	}
	return err
}

// adopt records the decision of an open question that already waits in INBOX: it
// is the one the run will apply, and a second one could not be published.
func (r *Register) adopt(ctx context.Context, row decision.Approval) error {
	waiting, err := r.conn.LastDirect(ctx, crumbs.StreamInbox, crumbs.DecisionSubject(row.RunID, row.CheckpointID))
	if err != nil || waiting == nil {
		return err
	}
	d, err := r.believe(waiting.Header, waiting.Data, row)
	if err != nil {
		r.conn.Log.WarnContext(ctx, "decision in INBOX not believed", "checkpoint", row.CheckpointID, "error", err)
		return nil
	}
	_, err = r.update(ctx, row.CheckpointID, func(row decision.Approval) (decision.Approval, bool, error) {
		row, changed := question.Decided(row, d)
		return row, changed, nil
	})
	return err
}

func (r *Register) believe(header nats.Header, data []byte, row decision.Approval) (crumbs.Decision, error) {
	var d crumbs.Decision
	event, err := crumbs.ReadEvent(header, data)
	if err != nil {
		return d, err
	}
	if err := crumbs.Decode(crumbs.TypeDecision, event.Data, &d); err != nil {
		return d, err
	}
	if d.CheckpointID != row.CheckpointID || d.RunID != row.RunID || d.ArgsHash != row.Checkpoint.ArgsHash {
		return d, fault.New(fault.DecisionInvalid, "it answers checkpoint %s with argsHash %s, expected %s with %s", d.CheckpointID, d.ArgsHash, row.CheckpointID, row.Checkpoint.ArgsHash)
	}
	return d, r.trust.Verify(d)
}

// Look reads the human crumbs of one run from CRUMBS and returns the row of id:
// an answer may come before this service has seen the question.
func (r *Register) Look(ctx context.Context, id crumbs.CheckpointID) (decision.Approval, error) {
	var failed error
	err := r.replay(ctx, runHumanCrumbs(id.Run()), func(subject string, header nats.Header, data []byte) {
		if failed == nil {
			failed = r.takeReadable(ctx, subject, header, data)
		}
	})
	if failed != nil {
		err = failed
	}
	if err != nil {
		return decision.Approval{}, err
	}
	row, err := r.Row(ctx, id)
	if err != nil || row.Status != decision.StatusOpen {
		return row, err
	}
	if err := r.adopt(ctx, row); err != nil {
		return row, err
	}
	return r.Row(ctx, id)
}

func runHumanCrumbs(run crumbs.RunID) string { return "crumb.*." + string(run) + ".human.*" }

// replay visits the crumbs on filter that are stored now, in order.
func (r *Register) replay(ctx context.Context, filter string, visit func(subject string, header nats.Header, data []byte)) error {
	return r.conn.Visit(ctx, mesh.Scan{Stream: crumbs.StreamCrumbs, Filter: filter}, func(m *mesh.Stored) bool {
		visit(m.Subject, m.Header, m.Data)
		return true
	})
}
