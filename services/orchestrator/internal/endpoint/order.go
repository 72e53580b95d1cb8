package endpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/sweep"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/worker"
)

// How long an endpoint waits to see what became of an order.
const (
	orderWait    = 4 * time.Second
	orderPollMin = 10 * time.Millisecond
	orderPollMax = 250 * time.Millisecond
	resultMax    = 512 << 10   // bytes of a result supplied by hand
	sendingMax   = time.Minute // how long an attempt without a message counts as on its way
)

// order is what an operator says of an attempt in flight.
type order struct {
	action  string
	call    crumbs.CallID
	attempt int // of a letter; 0: the one in flight
	result  json.RawMessage
	fault   *fault.Error
	by      *crumbs.Principal
	reason  string
	force   bool
	letter  *mesh.Stored // nil: there is none
}

func (e *Endpoints) deadAnswer(ctx context.Context, body json.RawMessage) (any, error) {
	var r crumbs.DeadAnswer
	if err := decode(body, &r, `{"callId":"run_….1.0","result":{…},"by":{"iss":"local","sub":"ada"}}`); err != nil {
		return nil, err
	}
	if err := operator(r.By, r.Reason); err != nil {
		return nil, err
	}
	if err := oneOf(r.ID, r.CallID); err != nil {
		return nil, err
	}
	if err := checkOutcome(r); err != nil {
		return nil, err
	}
	o := order{action: crumbs.OrderAnswer, call: r.CallID, result: r.Result, fault: r.Error, by: r.By, reason: r.Reason, force: r.Force}
	if r.ID != 0 {
		s, l, err := e.dead(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		if l.CallID == "" {
			return nil, refuse(l, "it is about no call; an outcome is given to calls only")
		}
		o.call, o.attempt, o.letter = l.CallID, l.Attempt, s
	}
	return e.order(ctx, o)
}

// checkOutcome wants a result or an error of the catalogue, and not both.
func checkOutcome(r crumbs.DeadAnswer) error {
	switch {
	case (r.Result == nil) == (r.Error == nil):
		return fault.New(fault.InvalidMessage, `expected a result like {"result":{…}} or an error like {"error":{"code":"TOOL_ERROR","message":"…"}}, and not both`)
	case len(r.Result) > resultMax:
		return fault.New(fault.PayloadTooLarge, "the result has %d bytes > limit %d", len(r.Result), resultMax)
	case r.Error == nil:
		return nil
	case r.Error.Message == "" || len(r.Error.Message) > core.ErrorMax:
		return fault.New(fault.InvalidMessage, "error.message: expected 1 to %d bytes", core.ErrorMax)
	}
	for _, entry := range fault.Catalogue() {
		if entry.Code == r.Error.Code {
			return nil
		}
	}
	return fault.New(fault.InvalidMessage, "error.code %.32q: expected a code of docs/errors.md, most often TOOL_ERROR", r.Error.Code)
}

// redriveCall asks the run for the next attempt of the call of a letter.
func (e *Endpoints) redriveCall(ctx context.Context, r crumbs.DeadRedrive, s *mesh.Stored, l crumbs.DeadLetter) (any, error) {
	if l.CallID == "" {
		return nil, refuse(l, "it does not say which call it is; redrive the call by its id (`crumb watch %s` shows it)", l.RunID)
	}
	return e.order(ctx, order{action: crumbs.OrderRedrive, call: l.CallID, attempt: l.Attempt, by: r.By, reason: r.Reason, force: r.Force, letter: s})
}

// order revokes the claim of the attempt, has the run told, and says what became of
// it. It fails with RUN_NOT_FOUND, RUN_ENDED, CALL_SETTLED, or CALL_STARTED when the
// attempt had started and force is not given.
func (e *Endpoints) order(ctx context.Context, o order) (any, error) {
	state, err := e.state(ctx, o.call.Run())
	if err != nil {
		return nil, err
	}
	if receipt, ok, err := e.ruled(state, o); ok || err != nil {
		return receipt, err
	}
	if state.Status.Ended() {
		return nil, ended(state)
	}
	f, err := e.inFlight(ctx, state, o)
	if err != nil {
		return nil, err
	}
	if err := f.fits(o.letter); err != nil {
		return nil, err
	}
	if o.attempt == 0 && o.action == crumbs.OrderRedrive && !o.force {
		if receipt, ok, err := e.redriven(ctx, state, o, f); ok || err != nil {
			return receipt, err
		}
	}
	o.attempt = f.attempt
	if err := e.revoke(ctx, o, f); err != nil {
		return nil, err
	}
	if err := e.tell(ctx, o); err != nil {
		return nil, err
	}
	receipt, err := e.became(ctx, o)
	if err != nil {
		return nil, err
	}
	if receipt.Applied {
		stream, subject := f.at(o.call.Run())
		if err := sweep.Forget(ctx, e.Conn, stream, subject, o.call, o.attempt); err != nil {
			e.Conn.Log.WarnContext(ctx, "the message of a settled call is left to the sweeper", "call", o.call, "error", err)
		}
	}
	return receipt, e.noteOrder(ctx, o)
}

// ruled answers an order that was given before: its giver gets the same receipt
// again, anybody else is told who was first. An order that names no attempt is about
// the last one that was ruled about, if that is over.
func (e *Endpoints) ruled(s core.State, o order) (crumbs.DeadReceipt, bool, error) {
	for i := len(s.Rulings) - 1; i >= 0; i-- {
		r := s.Rulings[i]
		if r.Call != o.call || o.attempt != 0 && r.Attempt != o.attempt || o.attempt == 0 && r.Action == crumbs.OrderRedrive {
			continue
		}
		by := ""
		if r.By != nil {
			by = actor(r.By)
		}
		if r.Action == o.action && by == actor(o.by) {
			receipt := e.receipt(o, r.Attempt)
			receipt.Applied, receipt.Already, receipt.By, receipt.At = true, true, by, &r.At
			return receipt, true, nil
		}
		done := map[string]string{crumbs.OrderAnswer: "answered", crumbs.OrderRedrive: "redriven as attempt " + strconv.Itoa(r.Attempt+1)}[r.Action]
		return crumbs.DeadReceipt{}, true, fault.New(fault.CallSettled, "attempt %d of call %s was %s by %s at %s", r.Attempt, r.Call, done, by, r.At.UTC().Format(time.RFC3339)).
			With("action", r.Action).With("by", by).With("at", r.At)
	}
	return crumbs.DeadReceipt{}, false, nil
}

// redriven is the receipt of the redrive that the attempt in flight is of. It is false
// when it is of none, when that one is nowhere any more, and when it had started:
// revoke knows what to say of that.
func (e *Endpoints) redriven(ctx context.Context, s core.State, o order, f flight) (crumbs.DeadReceipt, bool, error) {
	at := slices.IndexFunc(s.Rulings, func(r core.Ruling) bool {
		return r.Action == crumbs.OrderRedrive && r.Call == o.call && r.Attempt+1 == f.attempt
	})
	if at < 0 || f.stopping {
		return crumbs.DeadReceipt{}, false, nil
	}
	present, err := e.Conn.Present(ctx)
	if err != nil {
		return crumbs.DeadReceipt{}, false, err
	}
	a, err := e.attempt(ctx, f.flying(o.call), present)
	r := s.Rulings[at]
	onItsWay := time.Since(r.At.Time) < sendingMax
	if err != nil || a.Started && (a.Alive || f.once) || !a.Message && !a.Result && !onItsWay {
		return crumbs.DeadReceipt{}, false, err
	}
	receipt := e.receipt(o, r.Attempt)
	receipt.Applied, receipt.Already, receipt.At = true, true, &r.At
	if r.By != nil {
		receipt.By = actor(r.By)
	}
	return receipt, true, nil
}

func (e *Endpoints) receipt(o order, attempt int) crumbs.DeadReceipt {
	r := crumbs.DeadReceipt{RunID: o.call.Run(), CallID: o.call, Attempt: attempt, Act: crumbs.ActAnswer, By: actor(o.by)}
	if o.letter != nil {
		r.ID = o.letter.Sequence
	}
	if o.action == crumbs.OrderRedrive {
		r.Act, r.Attempt = crumbs.ActRedrive, attempt+1
	}
	return r
}

// flight is an attempt in flight.
type flight struct {
	attempt int
	queue   string // group or provider instance
	model   bool
	once    bool

	stopping bool // it was asked to stop, and may report until its grace is over
}

// flying names what is stored of the attempt.
func (f flight) flying(call crumbs.CallID) flying {
	stream, command := f.at(call.Run())
	if f.model {
		return flying{stream, mesh.ProviderConsumer(f.queue), command, crumbs.ModelResultSubject(f.queue, call, f.attempt), f.claim(call), call, f.attempt}
	}
	return flying{stream, mesh.GroupConsumer(f.queue), command, crumbs.ToolResultSubject(f.queue, call, f.attempt), f.claim(call), call, f.attempt}
}

func (f flight) claim(call crumbs.CallID) string {
	if f.model {
		return crumbs.ModelClaim(f.queue, call, f.attempt)
	}
	return crumbs.ToolClaim(f.queue, call, f.attempt)
}

// at is where the message of the attempt stands.
func (f flight) at(run crumbs.RunID) (stream, subject string) {
	if f.model {
		return crumbs.StreamModelCalls, crumbs.ModelCallSubject(f.queue, run)
	}
	return crumbs.StreamToolCalls, crumbs.ToolCallSubject(f.queue, run)
}

func (f flight) presence(worker string) string {
	if f.model {
		return crumbs.ModelPresence(f.queue, worker)
	}
	return crumbs.ToolPresence(f.queue, worker)
}

// fits refuses a letter about a call of another queue than the letter's own: its
// author may speak for that one only.
func (f flight) fits(letter *mesh.Stored) error {
	if letter == nil {
		return nil
	}
	if _, queue, ok := strings.Cut(crumbs.Token(letter.Subject, 1), "-"); ok && queue != f.queue {
		return fault.New(fault.RedriveRefused, "letter %d is of the queue of %s, and the call it names is of %s's: it was not given up there; name the call by its id", letter.Sequence, queue, f.queue)
	}
	return nil
}

// inFlight finds the attempt that an order is about. It fails with CALL_SETTLED when
// it is over, and says what to do with what is no call in flight.
func (e *Endpoints) inFlight(ctx context.Context, s core.State, o order) (flight, error) {
	settled := func(format string, args ...any) error {
		return fault.New(fault.CallSettled, "call %s: %s", o.call, fmt.Sprintf(format, args...))
	}
	if m := s.Model; m != nil && m.ID == o.call {
		switch {
		case o.action == crumbs.OrderAnswer:
			return flight{}, fault.New(fault.RedriveRefused, "call %s is a model's: nobody answers in its place; redrive it, or cancel the run", o.call)
		case o.attempt != 0 && o.attempt != m.Attempt:
			return flight{}, settled("attempt %d is over, attempt %d is in flight", o.attempt, m.Attempt)
		}
		d, err := e.Registry.Definition(ctx, s.Run.Agent, s.Run.Revision)
		if err != nil {
			return flight{}, err
		}
		return flight{attempt: m.Attempt, queue: d.Queue(), model: true}, nil
	}
	if f, found, err := e.errandInFlight(ctx, s, o); found || err != nil {
		return f, err
	}
	for _, c := range s.Calls {
		if c.ID != o.call {
			continue
		}
		switch {
		case c.Phase == core.Hooking:
			return flight{}, fault.New(fault.RedriveRefused, "call %s waits for its hook %s: `crumb explain %s` says more, and that one can be ordered about", o.call, c.Chain.ID, s.Run.ID)
		case c.Phase == core.Waiting:
			return flight{}, fault.New(fault.RedriveRefused, "call %s failed and is sent again by itself at %s", o.call, c.RetryAt.UTC().Format(time.RFC3339))
		case c.Phase == core.Asking:
			return flight{}, fault.New(fault.RedriveRefused, "call %s waits for a person: answer it with `crumb approvals`", o.call)
		case c.Phase == core.Settled:
			return flight{}, settled("it has its outcome: %s", c.Outcome)
		case o.attempt != 0 && o.attempt != c.Attempt:
			return flight{}, settled("attempt %d is over, attempt %d is in flight", o.attempt, c.Attempt)
		case s.Stop != nil && o.action == crumbs.OrderRedrive:
			return flight{}, fault.New(fault.RedriveRefused, "run %s is stopping: it sends nothing any more", s.Run.ID)
		}
		set, err := e.Registry.ToolSet(ctx, s.Run.ToolSet)
		if err != nil {
			return flight{}, err
		}
		tool, ok := set.Lookup(c.Leaf)
		return flight{attempt: c.Attempt, queue: tool.Group, once: !ok || tool.Effect == crumbs.EffectOnce, stopping: !c.Grace.IsZero()}, nil
	}
	return flight{}, settled("the run is at step %d and does not wait for it", s.Step)
}

// errandInFlight finds the hook or parser that an order is about.
func (e *Endpoints) errandInFlight(ctx context.Context, s core.State, o order) (flight, bool, error) {
	if s.Run.ToolSet == "" {
		return flight{}, false, nil
	}
	set, err := e.Registry.ToolSet(ctx, s.Run.ToolSet)
	if err != nil {
		return flight{}, false, err
	}
	for _, m := range core.Missions(core.Pinned{Tools: set}, s) {
		switch {
		case m.ID != o.call:
			continue
		case !m.RetryAt.IsZero():
			return flight{}, true, fault.New(fault.RedriveRefused, "call %s failed and is sent again by itself at %s", o.call, m.RetryAt.UTC().Format(time.RFC3339))
		case o.attempt != 0 && o.attempt != m.Attempt:
			return flight{}, true, fault.New(fault.CallSettled, "call %s: attempt %d is over, attempt %d is in flight", o.call, o.attempt, m.Attempt)
		}
		return flight{attempt: m.Attempt, queue: m.Program.Group, once: m.Program.Effect == crumbs.EffectOnce}, true, nil
	}
	return flight{}, false, nil
}

// revoke forbids the attempt to start. One that had started is left alone unless
// force is given, or its holder is gone and what is ordered cannot repeat an effect.
func (e *Endpoints) revoke(ctx context.Context, o order, f flight) error {
	key, claims := f.claim(o.call), e.Conn.Claims()
	claim, err := claims.RevokeUnstarted(ctx, key)
	// A claim that was revoked before may be of a call that had started: its deadline
	// or a cancel revoked it, and its grace is not over.
	if err != nil || claim.State != mesh.ClaimStarted && !(f.once && claim.Starts > 0) {
		return err
	}
	alive, err := e.Conn.Alive(ctx, f.presence(claim.Worker))
	if err != nil {
		return err
	}
	risk := ""
	switch {
	case alive:
		risk = "is present and may be working on it"
	case o.action == crumbs.OrderRedrive && f.once:
		risk = "is gone: whether the effect happened is not known, and the call must not happen twice"
	}
	if risk != "" && !o.force {
		refused := fault.New(fault.CallStarted, "attempt %d of call %s was started by %s, which %s; repeat with force to go on all the same", o.attempt, o.call, claim.Worker, risk).
			With("worker", claim.Worker).With("present", alive)
		if claim.State == mesh.ClaimStarted {
			refused = refused.With("startedAt", claim.At)
		}
		return refused
	}
	_, err = claims.Revoke(ctx, key)
	return err
}

// tell puts the order where the run takes its events from. One that waits for the
// attempt already goes first; became says which it was.
func (e *Endpoints) tell(ctx context.Context, o order) error {
	body := crumbs.RunOrder{Type: crumbs.TypeRunOrder, RunID: o.call.Run(), OrderID: "ord_" + uuid.NewString(), CallID: o.call, Attempt: o.attempt,
		Action: o.action, Result: o.result, Error: o.fault, By: o.by, Reason: o.reason}
	return worker.PublishOrder(ctx, e.Conn, body)
}

// noteOrder keeps who ordered what beside the letter, or where one would stand.
func (e *Endpoints) noteOrder(ctx context.Context, o order) error {
	s := o.letter
	if s == nil {
		stream := crumbs.StreamToolCalls
		if strings.HasSuffix(string(o.call), ".m") {
			stream = crumbs.StreamModelCalls
		}
		s = &mesh.Stored{Subject: "dead." + stream + "." + string(o.call.Run()) + "." + o.call.Token() + "-" + strconv.Itoa(o.attempt),
			Header: nats.Header{"ce-id": {o.call.Attempt(o.attempt)}}}
	}
	data, err := json.Marshal(map[string]any{"action": o.action, "callId": o.call, "attempt": o.attempt, "force": o.force, "by": o.by, "reason": o.reason})
	if err != nil {
		return fault.From(err)
	}
	act := crumbs.ActAnswer
	if o.action == crumbs.OrderRedrive {
		act = crumbs.ActRedrive
	}
	_, err = e.note(ctx, s, act, o.by, o.reason, data)
	return err
}

// became waits a little for the run to take the order up.
func (e *Endpoints) became(ctx context.Context, o order) (crumbs.DeadReceipt, error) {
	t := time.NewTimer(orderPollMin)
	defer t.Stop()
	for poll, end := orderPollMin, time.Now().Add(orderWait); ; poll = min(2*poll, orderPollMax) {
		s, err := e.state(ctx, o.call.Run())
		if err != nil {
			return crumbs.DeadReceipt{}, err
		}
		receipt, ok, err := e.ruled(s, o)
		if err != nil {
			return receipt, err
		}
		if ok {
			receipt.Already = false
			return receipt, nil
		}
		if _, err := e.inFlight(ctx, s, o); err != nil || s.Status.Ended() {
			if err == nil {
				err = ended(s)
			}
			return receipt, err // its worker was faster
		}
		if time.Now().After(end) {
			return e.receipt(o, o.attempt), nil
		}
		t.Reset(poll)
		select {
		case <-ctx.Done():
			return e.receipt(o, o.attempt), nil // the order is stored, and cannot be lost
		case <-t.C:
		}
	}
}
