package question

import (
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
)

// RowTTL is how long a row is kept after its question was settled or should
// have been: longer than CRUMBS (14 days), so that no late copy of a crumb opens
// a question again.
const RowTTL = 15 * 24 * time.Hour

// Required returns row with the question of body, and whether that changed it. A
// row that has its question stays as it is.
func Required(row decision.Approval, body crumbs.HumanRequired) (decision.Approval, bool) {
	if row.Checkpoint != nil {
		return row, false
	}
	row = identify(row, body.Base, body.CheckpointID)
	row.CreatedAt = crumbs.At(time.UnixMilli(body.Timestamp))
	row.Checkpoint = &body
	if row.Status == "" {
		row.Status = decision.StatusOpen
	}
	return row, true
}

// Resumed returns row settled as body says, and whether that changed it. The
// first human:resumed stands.
func Resumed(row decision.Approval, body crumbs.HumanResumed) (decision.Approval, bool) {
	if row.Status.Settled() {
		return row, false
	}
	at := crumbs.At(time.UnixMilli(body.Timestamp))
	row = identify(row, body.Base, body.CheckpointID)
	if row.CreatedAt.IsZero() {
		row.CreatedAt = at
	}
	row.Status, row.Outcome, row.At = settled(body.Outcome), body.Outcome, &at
	// What is not said of an answer that was applied stands as it was recorded.
	if body.By != nil || row.Status != decision.StatusApplied {
		row.By = body.By
	}
	if body.Reason != "" || row.Status != decision.StatusApplied {
		row.Reason = body.Reason
	}
	return row, true
}

func settled(outcome string) decision.Status {
	switch outcome {
	case crumbs.ResumedExpired:
		return decision.StatusExpired
	case crumbs.ResumedWithdrawn:
		return decision.StatusWithdrawn
	default:
		return decision.StatusApplied
	}
}

// Decided returns row with a decision, and whether that changed it: only an open
// row takes one.
func Decided(row decision.Approval, d crumbs.Decision) (decision.Approval, bool) {
	if row.Status != decision.StatusOpen {
		return row, false
	}
	row.Status, row.Decision = decision.StatusDecided, &d
	row.By, row.At, row.Reason = &d.By, &d.At, d.Reason
	return row, true
}

func identify(row decision.Approval, base crumbs.Base, id crumbs.CheckpointID) decision.Approval {
	row.CheckpointID, row.RunID, row.AgentID, row.SessionID = id, base.RunID, base.AgentID, base.SessionID
	return row
}

// TTL returns how long a row written now is kept; 0 = until it is written again,
// which is so for a question without expiry that is not settled.
func TTL(row decision.Approval, now time.Time) time.Duration {
	switch {
	case row.Status.Settled():
		return RowTTL
	case row.Checkpoint == nil || row.Checkpoint.ExpiresAt == nil:
		return 0
	default:
		return max(0, row.Checkpoint.ExpiresAt.Sub(now)) + RowTTL
	}
}
