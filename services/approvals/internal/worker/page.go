package worker

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// readQuery reads a list request and returns the keys it may concern. It returns
// INVALID_MESSAGE or INVALID_NAME when it cannot be meant.
func readQuery(body json.RawMessage) (decision.Query, string, error) {
	var q decision.Query
	if err := json.Unmarshal(body, &q); err != nil {
		return q, "", fault.Wrap(fault.InvalidMessage, err, "expected a JSON object {status?, runId?, limit?}: %v", err)
	}
	statuses := []decision.Status{"", decision.StatusOpen, decision.StatusDecided, decision.StatusApplied, decision.StatusExpired, decision.StatusWithdrawn}
	if !slices.Contains(statuses, q.Status) {
		return q, "", fault.New(fault.InvalidMessage, "status: expected one of %v, got %q", statuses[1:], q.Status)
	}
	if q.Limit < 0 || q.Limit > decision.ListMax {
		return q, "", fault.New(fault.InvalidMessage, "limit: expected 1 to %d, or none for %d, got %d", decision.ListMax, decision.ListDefault, q.Limit)
	}
	if q.Limit == 0 {
		q.Limit = decision.ListDefault
	}
	if q.RunID == "" {
		return q, everyRow, nil
	}
	return q, string(q.RunID) + ".*.*", crumbs.CheckRunID("run", string(q.RunID))
}

// page keeps the oldest rows that fit one reply, whatever order they come in. It
// holds no more than that many.
type page struct {
	limit int // rows at most
	max   int // bytes at most
	bytes int
	rows  []sized
	cut   *decision.Approval // the oldest row left out: nothing after it belongs here
}

type sized struct {
	row   decision.Approval
	bytes int
}

func newPage(limit, bytesMax int) *page { return &page{limit: limit, max: bytesMax} }

func (p *page) add(row decision.Approval) {
	if p.cut != nil && older(*p.cut, row) < 0 {
		return
	}
	if n := len(p.rows); n == p.limit && older(p.rows[n-1].row, row) < 0 {
		p.cut = &row
		return
	}
	text, err := json.Marshal(row)
	if err != nil {
		panic("a row that was decoded does not encode: " + err.Error())
	}
	at, _ := slices.BinarySearchFunc(p.rows, row, func(s sized, row decision.Approval) int { return older(s.row, row) })
	p.rows = slices.Insert(p.rows, at, sized{row, len(text) + 1})
	p.bytes += len(text) + 1
	for len(p.rows) > p.limit || p.bytes > p.max {
		last := p.rows[len(p.rows)-1]
		p.rows, p.bytes, p.cut = p.rows[:len(p.rows)-1], p.bytes-last.bytes, &last.row
	}
}

// older orders rows by creation, and those of one decision as the run numbered them.
func older(a, b decision.Approval) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt.Time), cmp.Compare(a.RunID, b.RunID), cmp.Compare(seq(a), seq(b)), cmp.Compare(a.CheckpointID, b.CheckpointID))
}

func seq(row decision.Approval) uint64 {
	if row.Checkpoint == nil {
		return 0
	}
	return row.Checkpoint.Seq
}

func (p *page) reply() decision.Page {
	out := decision.Page{Approvals: make([]decision.Approval, len(p.rows)), Truncated: p.cut != nil}
	for i, s := range p.rows {
		out.Approvals[i] = s.row
	}
	return out
}
