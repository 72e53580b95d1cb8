package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/turn"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/worker/gatewaytest"
)

func TestWorker_Failures(t *testing.T) {
	t.Parallel()
	b := gatewaytest.Start(t)
	for name, tc := range map[string]struct {
		adapter   *adapter
		code      fault.Code
		retryable bool
		waitMs    int64
		message   string
	}{
		"overloaded":    {fails(turn.Refused("acme", 529, 200*time.Millisecond, "busy")), fault.ModelError, true, 200, "529 Overloaded: busy"},
		"bad_request":   {fails(turn.Refused("acme", 400, 0, "too long")), fault.ModelError, false, 0, "400 Bad Request: too long"},
		"other_fault":   {fails(fault.New(fault.AgentNotFound, "no agent")), fault.AgentNotFound, false, 0, "no agent"},
		"no_fault":      {fails(errors.New("key sk-secret refused")), fault.ModelError, false, 0, "the gateway's log has the details"},
		"panic":         {&adapter{play: func(context.Context, crumbs.ModelCall, func(turn.Event, error) bool) { panic("sk-secret") }}, fault.ModelError, false, 0, "panicked"},
		"no_done":       {&adapter{play: func(context.Context, crumbs.ModelCall, func(turn.Event, error) bool) {}}, fault.ModelError, false, 0, "in the middle of the turn"},
		"nameless_tool": {answers(crumbs.Part{Type: crumbs.PartToolCall}), fault.ModelError, true, 0, "without a name"},
		"invalid_raw":   {answers(crumbs.Part{Type: crumbs.PartReasoning, Raw: []byte(`{`)}), fault.ModelError, false, 0, "not JSON"},
		"endless":       {endless(), fault.PayloadTooLarge, false, 0, "bytes in one turn"},
		"too_large":     {answers(crumbs.Part{Type: crumbs.PartText, Text: strings.Repeat("x", 8<<20)}), fault.PayloadTooLarge, false, 0, "limit"},
	} {
		h := handler(t, b, tc.adapter)
		call := gatewaytest.Call(crumbs.RunID("run_" + name))
		call.Deltas = false
		if err := h(context.Background(), delivery(b, call, 1)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r := b.Result()
		if r.Status != crumbs.StatusError || code(r) != tc.code || r.Retryable != tc.retryable || r.Error.RetryAfterMs != tc.waitMs || !strings.Contains(r.Error.Message, tc.message) {
			t.Errorf("%s: %+v %+v", name, r.ModelResult, r.Error)
		}
		if strings.Contains(string(r.Event.Data), "sk-secret") {
			t.Errorf("%s: the result shows a secret: %s", name, r.Event.Data)
		}
	}
}

func TestWorker_PanicLeavesTheLoopAlive(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		serve(t, b, &adapter{play: func(_ context.Context, call crumbs.ModelCall, yield func(turn.Event, error) bool) {
			if call.RunID == "run_1" {
				yield(turn.Event{Kind: turn.Text, Piece: "so far"}, nil)
				panic("boom")
			}
			yield(done("fine"), nil)
		}}, oneAtATime)
		b.Send(gatewaytest.Call("run_1"))
		b.Send(gatewaytest.Call("run_2"))
		if r := b.Result(); r.RunID != "run_1" || code(r) != fault.ModelError || r.Deltas != 1 {
			t.Fatalf("result: %+v", r.ModelResult)
		}
		if r := b.Result(); r.RunID != "run_2" || r.Status != crumbs.StatusOK {
			t.Fatalf("result: %+v", r.ModelResult)
		}
	})
}

func TestWorker_UnknownProvider(t *testing.T) {
	t.Parallel()
	b := gatewaytest.Start(t)
	h := handler(t, b, says("wrong"))
	call := gatewaytest.Call("run_1")
	call.Model.Provider = "acme"
	if err := h(context.Background(), delivery(b, call, 1)); err != nil {
		t.Fatal(err)
	}
	r := b.Result()
	if code(r) != fault.UnknownProvider || r.Retryable || !strings.Contains(r.Error.Message, `"acme"`) || !strings.Contains(r.Error.Message, gatewaytest.Provider) {
		t.Fatalf("result: %+v", r.Error)
	}
}
