package endpoint

import (
	"context"
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// deadClose notes that nothing more is to be done about a letter. Letters of runs that
// have ended can be neither redriven nor answered: without it they would be open until
// they are dropped.
func (e *Endpoints) deadClose(ctx context.Context, body json.RawMessage) (any, error) {
	var r crumbs.DeadClose
	if err := decode(body, &r, `{"id":17,"reason":"paid by hand","by":{"iss":"local","sub":"ada"}}`); err != nil {
		return nil, err
	}
	if err := operator(r.By, r.Reason); err != nil {
		return nil, err
	}
	if r.Reason == "" {
		return nil, fault.New(fault.InvalidMessage, "reason: expected why nothing more is to be done about letter %d", r.ID)
	}
	s, l, err := e.dead(ctx, r.ID)
	if err == nil && l.Of != 0 { // an edit is closed with its letter
		s, l, err = e.dead(ctx, l.Of)
	}
	if err != nil {
		return nil, err
	}
	receipt := crumbs.DeadReceipt{ID: l.ID, RunID: l.RunID, CallID: l.CallID, Attempt: l.Attempt, Act: crumbs.ActClose, Applied: true, By: actor(r.By)}
	last, err := e.Conn.Last(ctx, crumbs.StreamDead, l.DeadSubject()+".*")
	if err != nil {
		return nil, err
	}
	if last != nil && last.Header.Get(crumbs.DeadAct) == crumbs.ActClose {
		n := asNote(*last)
		receipt.Already, receipt.By, receipt.At = true, n.By, &n.At
		return receipt, nil
	}
	_, err = e.note(ctx, s, crumbs.ActClose, r.By, r.Reason, body)
	return receipt, err
}
