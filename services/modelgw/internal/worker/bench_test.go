package worker_test

import (
	"context"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/turn"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/worker"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/worker/gatewaytest"
)

// adapter is a provider made of one function, which counts its calls.
type adapter struct {
	calls atomic.Int32
	play  func(ctx context.Context, call crumbs.ModelCall, yield func(turn.Event, error) bool)
}

func (a *adapter) Generate(ctx context.Context, r turn.Request) iter.Seq2[turn.Event, error] {
	a.calls.Add(1)
	return func(yield func(turn.Event, error) bool) { a.play(ctx, r.Call, yield) }
}

// says answers with one text.
func says(text string) *adapter {
	return &adapter{play: func(_ context.Context, _ crumbs.ModelCall, yield func(turn.Event, error) bool) {
		yield(done(text), nil)
	}}
}

// fails answers with one error.
func fails(err error) *adapter {
	return &adapter{play: func(_ context.Context, _ crumbs.ModelCall, yield func(turn.Event, error) bool) {
		yield(turn.Event{}, err)
	}}
}

// hangs sends one piece of text, says so, and waits until it is stopped.
func hangs() (a *adapter, started chan struct{}) {
	started = make(chan struct{}, 8)
	return &adapter{play: func(ctx context.Context, _ crumbs.ModelCall, yield func(turn.Event, error) bool) {
		yield(turn.Event{Kind: turn.Text, Piece: "so far"}, nil)
		started <- struct{}{}
		<-ctx.Done()
		yield(turn.Event{}, ctx.Err())
	}}, started
}

func done(text string) turn.Event {
	return turn.Event{Kind: turn.Done, Answer: &turn.Answer{Parts: []crumbs.Part{{Type: crumbs.PartText, Text: text}}}}
}

// serve runs a worker until the returned function is called.
func serve(t *testing.T, b *gatewaytest.Bench, a worker.Adapter, change ...func(*mesh.ConsumeConfig)) (stop func()) {
	t.Helper()
	return serveTraced(t, b, a, noop.NewTracerProvider().Tracer(""), change...)
}

func serveTraced(t *testing.T, b *gatewaytest.Bench, a worker.Adapter, tracer trace.Tracer, change ...func(*mesh.ConsumeConfig)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w, err := worker.New(worker.Deps{Conn: b.Conn, Adapters: map[string]worker.Adapter{gatewaytest.Provider: a}, Tracer: tracer})
	if err != nil {
		t.Fatal(err)
	}
	unfollow, err := w.FollowCancels(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cfg := mesh.ConsumeConfig{Stream: crumbs.StreamModelCalls, Consumer: mesh.ProviderConsumer(gatewaytest.Provider), Capacity: 4, DoubleAck: true}
	for _, c := range change {
		c(&cfg)
	}
	loop, err := b.Conn.NewLoop(ctx, cfg, w.Handler(gatewaytest.Provider, "worker-1"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	var once atomic.Bool
	stop = func() {
		if once.Swap(true) {
			return
		}
		cancel()
		unfollow()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func oneAtATime(c *mesh.ConsumeConfig) { c.Capacity = 1 }

func code(a gatewaytest.Answer) fault.Code {
	if a.Error == nil {
		return ""
	}
	return a.Error.Code
}

func handler(t *testing.T, b *gatewaytest.Bench, a worker.Adapter) mesh.Handler {
	t.Helper()
	w, err := worker.New(worker.Deps{Conn: b.Conn, Adapters: map[string]worker.Adapter{gatewaytest.Provider: a}, Tracer: noop.NewTracerProvider().Tracer("")})
	if err != nil {
		t.Fatal(err)
	}
	return w.Handler(gatewaytest.Provider, "worker-1")
}

func delivery(b *gatewaytest.Bench, call crumbs.ModelCall, seq uint64) *mesh.Delivery {
	msg := b.Message(call)
	return &mesh.Delivery{Subject: msg.Subject, Header: msg.Header, Data: msg.Data, Stored: time.Now(), Sequence: seq, Count: 1}
}

func answers(parts ...crumbs.Part) *adapter {
	return &adapter{play: func(_ context.Context, _ crumbs.ModelCall, yield func(turn.Event, error) bool) {
		yield(turn.Event{Kind: turn.Done, Answer: &turn.Answer{Parts: parts}}, nil)
	}}
}

func endless() *adapter {
	piece := strings.Repeat("x", 1<<20)
	return &adapter{play: func(_ context.Context, _ crumbs.ModelCall, yield func(turn.Event, error) bool) {
		for yield(turn.Event{Kind: turn.Text, Piece: piece}, nil) {
		}
	}}
}
