package worker

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// Publishing a result.
const (
	blobRetryMin = 100 * time.Millisecond
	blobRetryMax = 2 * time.Second
	// lastWords is how long a process that gives its calls up still tries to
	// store the outcome of an interrupted one.
	lastWords = 5 * time.Second
)

// answer stores the one result of an attempt. A call that may run again is given
// back instead when this process interrupted it only because it stops.
// A cancel of the call does not stop its result: the run waits for it.
func (r *request) answer(o outcome) error {
	stopping := r.process.Err() != nil
	if stopping && o.interrupted && effectOf(r.call) != crumbs.EffectOnce {
		return fault.New(fault.ShuttingDown, "the worker stopped in the middle of call %s", r.attempt.key)
	}
	err := r.store(r.process, o)
	if err != nil && r.process.Err() != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(r.process), lastWords)
		defer cancel()
		err = r.store(last, o)
	}
	if err != nil {
		return fault.Wrap(fault.ShuttingDown, err, "the result of call %s is not stored", r.attempt.key)
	}
	r.running.finish(r.attempt)
	return nil
}

// store repeats until the result is stored or ctx ends; the consume loop keeps
// the message from being redelivered meanwhile.
func (r *request) store(ctx context.Context, o outcome) error {
	body, err := json.Marshal(r.body(o))
	if err != nil {
		return fault.From(err)
	}
	short, object, err := r.putAside(ctx, body)
	if err != nil {
		return err
	}
	msg, err := r.event(short, object)
	if err != nil {
		return err
	}
	mesh.InjectTrace(ctx, msg)
	return r.conn.PublishOnce(ctx, msg)
}

// putAside makes a body over mesh.InlineMax a claim check.
func (r *request) putAside(ctx context.Context, body json.RawMessage) (short json.RawMessage, object string, err error) {
	for delay := blobRetryMin; ; delay = min(2*delay, blobRetryMax) {
		short, object, err = r.blobs.CheckIn(ctx, r.call.RunID, body, mesh.BaseFields()...)
		if err == nil {
			return short, object, nil
		}
		r.conn.Log.Warn("result not put aside, repeating", "call", r.attempt.key, "error", err)
		t := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, "", ctx.Err()
		case <-t.C:
		}
	}
}

func (r *request) event(body json.RawMessage, object string) (*nats.Msg, error) {
	return crumbs.Event{
		ID: r.attempt.key, Source: crumbs.Source(service), Type: crumbs.CEType(crumbs.TypeToolResult),
		Subject: "run/" + string(r.call.RunID), Time: time.Now(),
		RunID: r.call.RunID, AgentID: r.call.AgentID, SessionID: r.call.SessionID, DataRef: object,
		TraceParent: r.origin.TraceParent, TraceState: r.origin.TraceState, Data: body,
	}.Message(crumbs.ToolResultSubject(r.cfg.Group, r.call.CallID, r.call.Attempt))
}
