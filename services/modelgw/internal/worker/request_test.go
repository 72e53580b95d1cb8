package worker_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/turn"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/worker/gatewaytest"
)

func TestWorker_UnreadableIsDead(t *testing.T) {
	t.Parallel()
	b := gatewaytest.Start(t)
	a := says("never")
	h := handler(t, b, a)
	other, step, ref := gatewaytest.Call("run_1"), gatewaytest.Call("run_1"), gatewaytest.Call("run_1")
	other.RunID = "run_2"
	step.Step = 2
	ref.DataRef = &crumbs.DataRef{Object: "run_1/" + strings.Repeat("0", 64), Bytes: 1}
	noType := delivery(b, gatewaytest.Call("run_1"), 1)
	noType.Data = []byte(`{"runId":"run_1"}`)
	noJSON := delivery(b, gatewaytest.Call("run_1"), 1)
	noJSON.Data = []byte(`{`)
	mismatch := delivery(b, gatewaytest.Call("run_1"), 1)
	mismatch.Data = delivery(b, other, 1).Data
	for name, d := range map[string]*mesh.Delivery{
		"no type": noType, "no JSON": noJSON, "another run's subject": mismatch,
		"another step's call": delivery(b, step, 1), "lost object": delivery(b, ref, 1),
	} {
		err := h(context.Background(), d)
		if err == nil || !strings.HasPrefix(err.Error(), "dead: ") {
			t.Errorf("%s: %v, want dead", name, err)
		}
	}
	if a.calls.Load() != 0 || b.Waiting(crumbs.StreamInbox) != 0 {
		t.Errorf("%d calls, %d results", a.calls.Load(), b.Waiting(crumbs.StreamInbox))
	}
}

// A request over 256 KiB comes as a reference, and so does its result.
func TestWorker_ClaimCheck(t *testing.T) {
	t.Parallel()
	b := gatewaytest.Start(t)
	large := strings.Repeat("é", mesh.InlineMax)
	h := handler(t, b, &adapter{play: func(_ context.Context, call crumbs.ModelCall, yield func(turn.Event, error) bool) {
		text := call.Messages[0].Parts[0].Text
		_ = yield(turn.Event{Kind: turn.Text, Piece: text}, nil) && yield(done(text), nil)
	}})
	call := gatewaytest.Call("run_1")
	call.Messages = []crumbs.Message{gatewaytest.User(large)}
	d := delivery(b, call, 1)
	if len(d.Data) > 4096 {
		t.Fatalf("the request has %d bytes, want a reference", len(d.Data))
	}
	if err := h(context.Background(), d); err != nil {
		t.Fatal(err)
	}
	r := b.Result()
	if r.Event.DataRef == "" || len(r.Event.Data) > 4096 || r.Message.Parts[0].Text != large {
		t.Fatalf("dataref %q, %d bytes in the message", r.Event.DataRef, len(r.Event.Data))
	}
	var whole strings.Builder
	deltas := b.Deltas()
	for _, d := range deltas {
		whole.WriteString(d.Delta)
	}
	if len(deltas) < 2 || len(deltas) != r.Deltas || whole.String() != large {
		t.Fatalf("%d deltas of %d, together equal: %v", len(deltas), r.Deltas, whole.String() == large)
	}
}

func TestWorker_SegmentsComeFirst(t *testing.T) {
	t.Parallel()
	b := gatewaytest.Start(t)
	ctx := context.Background()
	put := func(data string) string {
		name := mesh.BlobName("run_0", []byte(data))
		if err := b.Conn.Blobs(crumbs.AreaCore).Put(ctx, name, []byte(data)); err != nil {
			t.Fatal(err)
		}
		return name
	}
	oldest := put(`[{"role":"user","parts":[{"type":"text","text":"1"}]},{"role":"assistant","parts":[{"type":"text","text":"2"}]}]`)
	older := put(`[{"role":"user","parts":[{"type":"text","text":"3"}]}]`)
	h := handler(t, b, &adapter{play: func(_ context.Context, call crumbs.ModelCall, yield func(turn.Event, error) bool) {
		var all []string
		for _, m := range call.Messages {
			all = append(all, m.Parts[0].Text)
		}
		yield(done(strings.Join(all, " ")), nil)
	}})
	send := func(run crumbs.RunID, segments ...string) gatewaytest.Answer {
		t.Helper()
		call := gatewaytest.Call(run)
		call.Messages, call.Segments = []crumbs.Message{gatewaytest.User("4")}, segments
		if err := h(ctx, delivery(b, call, 1)); err != nil {
			t.Fatal(err)
		}
		return b.Result()
	}
	if r := send("run_1", oldest, older); r.Message.Parts[0].Text != "1 2 3 4" {
		t.Errorf("transcript %q", r.Message.Parts[0].Text)
	}
	objects, err := b.Conn.JS.Stream(ctx, crumbs.StreamBlobs)
	if err != nil {
		t.Fatal(err)
	}
	if err := objects.Purge(ctx, jetstream.WithPurgeSubject(crumbs.BlobFilter(crumbs.AreaCore))); err != nil {
		t.Fatal(err)
	}
	if r := send("run_2", oldest); r.Status != crumbs.StatusOK || r.Message.Parts[0].Text != "1 2 4" {
		t.Errorf("a segment read before: %+v", r.ModelResult)
	}
	if r := send("run_3", put(`[]`), "run_0/"+strings.Repeat("0", 64)); code(r) != fault.RunNotFound || r.Retryable {
		t.Errorf("a segment that is gone: %+v", r.ModelResult)
	}
	if r := send("run_4", put(`{"no":"list"}`)); code(r) != fault.InvalidMessage {
		t.Errorf("a segment that is no list: %+v", r.ModelResult)
	}
}
