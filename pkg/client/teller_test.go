package client_test

import (
	"context"
	"slices"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// Each question is told of once and in order, beside the reading: neither what
// takes its time nor what panics keeps a crumb back.
func TestOnHumanRequired_CF_K19_CF_H10_OncePerQuestion(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r := f.run("run_1")
	r.starts()
	r.asks(0, false)
	r.asks(1, false)
	r.asks(2, true)
	var told []crumbs.HumanRequired
	suspended := make(chan struct{})
	out := 0
	for item, err := range f.client.Follow(context.Background(), r.id, client.After(2), client.UntilSuspended(), client.OnHumanRequired(func(_ context.Context, q crumbs.HumanRequired) {
		<-suspended // the reading has come to its end meanwhile
		told = append(told, q)
		panic("a page that cannot be shown")
	})) {
		if err != nil {
			t.Fatal(err)
		}
		out++
		if item.Suspended {
			close(suspended)
		}
	}
	if out != 2 || len(told) != 2 {
		t.Fatalf("%d crumbs, told of %+v; want those after the second", out, told)
	}
	for i, q := range told {
		want := crumbs.ToolCallID(r.id, 1, i+1)
		if q.CheckpointID != want || q.ToolCallID != want || q.AgentID != publisher || q.RunID != r.id || q.SessionID != "ses_1" ||
			q.ToolName != "tool_publish" || string(q.Args) != `{}` || q.Kind != crumbs.KindApproval || q.ArgsHash != hash {
			t.Errorf("question %d: %+v", i, q)
		}
	}
}

// Run tells of the questions of the run while it waits, and Wait of those that
// came since. Both have told of all when they return.
func TestOnHumanRequired_RunAndWait(t *testing.T) {
	t.Parallel()
	f, ctx := newFake(t), context.Background()
	var told []crumbs.CheckpointID
	tell := client.OnHumanRequired(func(_ context.Context, q crumbs.HumanRequired) { told = append(told, q.CheckpointID) })
	r := f.run("run_1")
	r.starts()
	r.asks(0, true)
	out, err := f.client.Run(ctx, client.Request{Agent: publisher, RunID: r.id}, tell)
	if err != nil || out.Status != client.Suspended || !slices.Equal(told, []crumbs.CheckpointID{"run_1.1.0"}) {
		t.Fatalf("got %+v, %v, told of %v", out, err, told)
	}
	r.resumes(0, false)
	r.asks(1, true)
	out, err = f.client.Wait(ctx, r.id, client.After(out.Seq), tell)
	if err != nil || out.Status != client.Suspended || !slices.Equal(told, []crumbs.CheckpointID{"run_1.1.0", "run_1.1.1"}) {
		t.Fatalf("got %+v, %v, told of %v", out, err, told)
	}
}

// A context that has ended begins no call; the one that runs learns of it. The run
// is cancelled meanwhile, not after it.
func TestOnHumanRequired_ContextEnds(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	ctx, end := context.WithCancel(context.Background())
	r := f.run("run_1")
	r.starts()
	r.asks(0, false)
	r.asks(1, false)
	told := 0
	out, err := f.client.Run(ctx, client.Request{Agent: publisher, RunID: r.id}, client.OnHumanRequired(func(ctx context.Context, _ crumbs.HumanRequired) {
		told++
		end()
		<-ctx.Done()
		<-f.cancelled
		r.completes(`1`)
	}))
	if err != nil || out.Status != client.Completed || told != 1 {
		t.Errorf("got %+v, %v, told of %d; want one", out, err, told)
	}
}
