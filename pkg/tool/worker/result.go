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
	// lastWordsMax is how long a process that gives its calls up still tries to
	// store the outcome of one, or to settle its claim.
	lastWordsMax = 5 * time.Second
)

// answer stores the one result of an attempt. A call that may run again, or whose
// handler was not entered, is given back instead when this process interrupted it
// only because it stops. A cancel of the call does not stop its result: the run
// waits for it.
func (r *request) answer(o outcome) error {
	if r.process.Err() != nil && o.interrupted && (o.untouched || effectOf(r.call) != crumbs.EffectOnce) {
		if err := r.giveBack(); err != nil {
			return err
		}
	}
	ctx, cancel := r.lastWords()
	defer cancel()
	if err := r.store(ctx, o); err != nil {
		return fault.Wrap(fault.ShuttingDown, err, "the result of call %s is not stored", r.attempt.key)
	}
	r.running.finish(r.attempt)
	return nil
}

// lastWords ends lastWordsMax after the process gave its calls up. What must not be
// left open, a claim or a result, is written under it.
func (r *request) lastWords() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.process))
	forget := context.AfterFunc(r.process, func() {
		t := time.AfterFunc(lastWordsMax, cancel)
		context.AfterFunc(ctx, func() { t.Stop() })
	})
	return ctx, func() { forget(); cancel() }
}

// giveBack takes the start back, so that it costs the call nothing, and fails with
// SHUTTING_DOWN, which sends the message to another worker at once. It returns nil
// when the call was revoked meanwhile: then its run waits for the outcome.
func (r *request) giveBack() error {
	ctx, cancel := r.lastWords()
	defer cancel()
	back, err := r.claims.GiveBack(ctx, r.hold)
	switch {
	case err != nil:
		r.conn.Log.WarnContext(ctx, "claim not given back; the start counts", "error", err)
	case !back:
		claim, err := r.claims.Get(ctx, r.claimKey())
		if err == nil && claim.State == mesh.ClaimRevoked {
			return nil
		}
	}
	return fault.New(fault.ShuttingDown, "the worker stopped in the middle of call %s; another one takes it", r.attempt.key)
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
		short, object, err = r.results.CheckIn(ctx, r.call.RunID, body, mesh.BaseFields()...)
		if err == nil {
			return short, object, nil
		}
		r.conn.Log.WarnContext(ctx, "result not put aside, repeating", "error", err)
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
