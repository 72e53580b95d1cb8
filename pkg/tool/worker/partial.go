package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

const (
	// partialsInFlight is how many partials may wait for their ack.
	partialsInFlight = 64
	// partialWait is how long a partial's ack, or the last ones together, are
	// awaited; then it is given up: partials are live only.
	partialWait = 5 * time.Second
)

// partials sends what a streaming tool yields to DELTAS. It is used by one
// goroutine at a time.
type partials struct {
	*Worker
	call    crumbs.ToolCall
	subject string
	index   int // of the next one
	waiting []jetstream.PubAckFuture
	lost    int

	kept    []json.RawMessage // that the result brings back, when the call asks to keep them
	bytes   int               // of kept
	omitted int               // those after them
}

func newPartials(w *Worker, call crumbs.ToolCall) *partials {
	return &partials{Worker: w, call: call, subject: crumbs.PartialSubject(call.AgentID, call.RunID, w.cfg.Group)}
}

// send never fails: a watcher that misses a partial is no reason to end a call.
func (p *partials) send(v json.RawMessage) error {
	index := p.index
	p.index++
	p.keep(v)
	if len(p.waiting) >= partialsInFlight {
		p.await(p.waiting[0], time.Now().Add(partialWait))
		p.waiting = p.waiting[1:]
	}
	msg, err := p.message(v, index)
	if err != nil {
		p.miss(err)
		return nil
	}
	ack, err := p.conn.JS.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0))
	if err != nil {
		p.miss(err)
		return nil
	}
	p.waiting = append(p.waiting, ack)
	return nil
}

// keep notes a partial for the result: the first ones, as far as the bounds of a
// result go. What is left out is counted, so that nobody takes them for all.
func (p *partials) keep(v json.RawMessage) {
	switch {
	case !p.call.KeepPartials:
	case p.omitted > 0 || len(p.kept) >= crumbs.PartialsMax || p.bytes+len(v) > crumbs.PartialsBytesMax:
		p.omitted++
	default:
		p.kept = append(p.kept, bytes.Clone(v))
		p.bytes += len(v)
	}
}

func (p *partials) message(v json.RawMessage, index int) (*nats.Msg, error) {
	now := time.Now()
	body, err := json.Marshal(crumbs.ResultPartial{
		DeltaBase: crumbs.DeltaBase{
			Base: crumbs.Base{Type: crumbs.TypeResultPartial, RunID: p.call.RunID, AgentID: p.call.AgentID, SessionID: p.call.SessionID,
				Seq: p.call.AfterSeq, Timestamp: now.UnixMilli(), Step: p.call.Step},
			Attempt: p.call.Attempt, Index: index,
		},
		ToolCallID: p.call.CallID, ToolName: p.call.ToolName, Result: v,
	})
	if err != nil {
		return nil, fault.From(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), partialWait)
	defer cancel()
	short, object, err := p.live.CheckIn(ctx, p.call.RunID, body, append(mesh.BaseFields(), "index")...)
	if err != nil {
		return nil, err
	}
	return crumbs.Event{
		ID: p.call.CallID.Attempt(p.call.Attempt) + "/" + strconv.Itoa(index), Source: crumbs.Source(service), Type: crumbs.CEType(crumbs.TypeResultPartial),
		Subject: "run/" + string(p.call.RunID), Time: now,
		RunID: p.call.RunID, AgentID: p.call.AgentID, SessionID: p.call.SessionID, DataRef: object, Data: short,
	}.Message(p.subject)
}

// settle awaits all acks, so that the result comes after the last partial
// (CF-S01), and returns how many partials there were.
func (p *partials) settle() int {
	until := time.Now().Add(partialWait)
	for _, ack := range p.waiting {
		p.await(ack, until)
	}
	p.waiting = nil
	if p.lost > 0 {
		p.conn.Log.Warn("partials lost", "run", p.call.RunID, "call", p.call.CallID, "lost", p.lost, "of", p.index)
	}
	return p.index
}

func (p *partials) await(ack jetstream.PubAckFuture, until time.Time) {
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-ack.Ok():
	case err := <-ack.Err():
		p.miss(err)
	case <-t.C:
		p.miss(context.DeadlineExceeded)
	}
}

func (p *partials) miss(err error) {
	p.lost++
	p.conn.Log.Debug("partial not stored", "run", p.call.RunID, "call", p.call.CallID, "error", err)
}
