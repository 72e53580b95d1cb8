package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// The context of Run is the caller's interest in the run: a deadline cancels as an
// interruption does. Run then tells how the run ended.
func TestRun_ContextCancelsTheRun(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func() (context.Context, func()){
		"cancelled": func() (context.Context, func()) { return context.WithCancel(context.Background()) },
		"deadline": func() (context.Context, func()) {
			due := make(chan struct{})
			ctx := deadlined{context.Background(), due}
			return ctx, func() { close(due) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			ctx, end := end()
			r := f.run("run_1")
			r.starts()
			r.asks(0, false)
			go func() {
				if run := <-f.cancelled; run != r.id {
					t.Errorf("cancelled %s", run)
				}
				r.asks(1, true) // asked before the cancel came in: no outcome any more
				r.fails(fault.New(fault.RunCancelled, "the caller's context ended"))
			}()
			out, err := f.client.Run(ctx, client.Request{Agent: publisher, RunID: r.id}, onQuestion(end))
			if err != nil || out.Status != client.Cancelled || !errors.Is(out.Err, fault.Of(fault.RunCancelled)) || out.Seq != 4 {
				t.Fatalf("got %+v, %v; want cancelled", out, err)
			}
			if got, want := f.body("runs.cancel"), `{"runId":"run_1","reason":"the caller's context ended"}`; got != want {
				t.Errorf("sent %s, want %s", got, want)
			}
		})
	}
}

// onQuestion does something once Run reads the run's questions.
func onQuestion(do func()) client.FollowOption {
	return client.OnHumanRequired(func(context.Context, crumbs.HumanRequired) { do() })
}

// deadlined is a context whose deadline passes when a test says so.
type deadlined struct {
	context.Context
	due chan struct{}
}

func (d deadlined) Done() <-chan struct{} { return d.due }

func (d deadlined) Err() error {
	select {
	case <-d.due:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// A run that ended while it was being cancelled ended as it did.
func TestRun_ContextEndsWithTheRun(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	ctx, end := context.WithCancel(context.Background())
	r := f.run("run_1")
	r.starts()
	r.asks(0, false)
	go func() {
		<-f.cancelled
		r.completes(`"done"`)
	}()
	out, err := f.client.Run(ctx, client.Request{Agent: publisher, RunID: r.id}, onQuestion(end))
	if err != nil || out.Status != client.Completed || string(out.Output) != `"done"` {
		t.Fatalf("got %+v, %v; want completed", out, err)
	}
}

func TestRun_DetachedContextEndsTheWaitingOnly(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	ctx, end := context.WithCancel(context.Background())
	r := f.run("run_1")
	r.starts()
	r.asks(0, false)
	out, err := f.client.Run(ctx, client.Request{Agent: publisher, RunID: r.id}, onQuestion(end), client.Detached())
	if !errors.Is(err, context.Canceled) || out.Run != r.id || out.Status != "" {
		t.Fatalf("got %+v, %v; want the context's error and the run", out, err)
	}
	if got := f.body("runs.cancel"); got != "" {
		t.Errorf("the run was cancelled: %s", got)
	}
	r.completes(`"done"`)
	if out, err = f.client.Wait(context.Background(), r.id); err != nil || out.Status != client.Completed {
		t.Errorf("got %+v, %v; want completed", out, err)
	}
}

// A context that has ended starts nothing, and what is followed only is never
// cancelled.
func TestRun_ContextThatHasEnded(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	ended, end := context.WithCancel(context.Background())
	end()
	if out, err := f.client.Run(ended, client.Request{Agent: publisher, RunID: "run_1"}); !errors.Is(err, context.Canceled) || out.Run != "run_1" || out.Status != "" {
		t.Errorf("got %+v, %v; want the context's error", out, err)
	}
	f.run("run_2").starts()
	if _, err := f.client.Wait(ended, "run_2", client.Started(publisher)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	if got := f.body("runs.start") + f.body("runs.cancel"); got != "" {
		t.Errorf("sent %s", got)
	}
}

// Whether a request that was under way made a run is not known: it is cancelled,
// should there be one. A run that cannot be cancelled is named, with why.
func TestRun_ContextEndsWhileAsking(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	ctx, end := context.WithCancel(context.Background())
	cancelled := make(chan crumbs.RunID, 1)
	serve(t, m.Conn, mesh.Endpoint{Name: "start", Handle: func(ctx context.Context, _ json.RawMessage) (any, error) {
		end()
		<-cancelled // no answer comes before Run has given up on it
		return nil, fault.New(fault.Unavailable, "too late")
	}}, mesh.Endpoint{Name: "cancel", Handle: func(_ context.Context, body json.RawMessage) (any, error) {
		var r crumbs.RunCancel
		err := json.Unmarshal(body, &r)
		cancelled <- r.RunID
		return crumbs.RunCancelReply{RunID: r.RunID}, err
	}})
	out, err := client.New(m.Connect("application")).Run(ctx, client.Request{Agent: publisher, RunID: "run_1"})
	if !errors.Is(err, context.Canceled) || out.Run != "run_1" || out.Status != "" {
		t.Errorf("got %+v, %v; want the context's error and the run", out, err)
	}
}

func TestRun_ContextEndsAndNobodyCancels(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	ctx, end := context.WithCancel(context.Background())
	serve(t, m.Conn, mesh.Endpoint{Name: "start", Handle: func(context.Context, json.RawMessage) (any, error) {
		time.AfterFunc(0, end)
		return crumbs.RunStartReply{RunID: "run_1", AgentID: publisher, Created: true}, nil
	}}, mesh.Endpoint{Name: "cancel", Handle: func(context.Context, json.RawMessage) (any, error) {
		return nil, fault.New(fault.PermissionsViolation, "not you")
	}})
	out, err := client.New(m.Connect("application")).Run(ctx, client.Request{Agent: publisher, RunID: "run_1"})
	if err == nil || out.Run != "run_1" || out.Status != "" {
		t.Fatalf("got %+v, %v; want an error and the run", out, err)
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want one around the context's error", err)
	}
}

func serve(t *testing.T, conn *mesh.Conn, endpoints ...mesh.Endpoint) {
	t.Helper()
	if _, err := conn.Serve("runs", "a test", endpoints...); err != nil {
		t.Fatal(err)
	}
}
