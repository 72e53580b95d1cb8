package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// types are the labels of what a Follow hands on, and the error it ends with.
func types(f *fake, id crumbs.RunID, opts ...client.FollowOption) (got []string, last error) {
	for item, err := range f.client.Follow(context.Background(), id, opts...) {
		if err != nil {
			return got, err
		}
		got = append(got, item.Type)
	}
	return got, nil
}

func TestStart_OneRequestOneRun(t *testing.T) {
	t.Parallel()
	f, ctx := newFake(t), context.Background()
	request := client.Request{Agent: publisher, RunID: "order_7", Input: map[string]any{"path": "README.md"}, Goal: "publish",
		Metadata: map[string]string{"team": "docs"}, WithoutDeltas: true}
	for _, created := range []bool{true, false} {
		got, err := f.client.Start(ctx, request)
		if want := (client.Run{ID: "order_7", Agent: publisher, Created: created}); err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
	want := `{"type":"run.request","runId":"order_7","agentId":"publisher","input":{"path":"README.md"},"goal":"publish","deltas":false,"metadata":{"team":"docs"}}`
	if got := f.body("runs.start"); got != want {
		t.Errorf("asked %s\nwant  %s", got, want)
	}
	request.Input = "another"
	if got, err := f.client.Start(ctx, request); !errors.Is(err, fault.Of(fault.RunConflict)) || got.ID != "order_7" {
		t.Errorf("got %+v, %v; want RUN_CONFLICT", got, err)
	}
	fresh, err := f.client.Start(ctx, client.Request{Agent: publisher, Input: json.RawMessage(`[1]`)})
	if err != nil || !strings.HasPrefix(string(fresh.ID), "run_") {
		t.Errorf("got %+v, %v; want a fresh id", fresh, err)
	}
}

func TestStart_RefusesWhatIsNoRequest(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	many := map[string]string{}
	for _, key := range strings.Split("abcdefghijklmnopq", "") {
		many[key] = ""
	}
	for name, tt := range map[string]struct {
		request client.Request
		want    fault.Code
	}{
		"no agent":                   {client.Request{}, fault.InvalidName},
		"an agent that is a pattern": {client.Request{Agent: "*"}, fault.InvalidName},
		"a run id that is a pattern": {client.Request{Agent: publisher, RunID: "a.b"}, fault.InvalidName},
		"an input that is no JSON":   {client.Request{Agent: publisher, Input: func() {}}, fault.InvalidInput},
		"a raw input that is none":   {client.Request{Agent: publisher, Input: json.RawMessage(`{`)}, fault.InvalidInput},
		"a context that is no JSON":  {client.Request{Agent: publisher, ToolProviderContext: make(chan int)}, fault.InvalidInput},
		"much metadata":              {client.Request{Agent: publisher, Metadata: many}, fault.InvalidInput},
		"large metadata":             {client.Request{Agent: publisher, Metadata: map[string]string{"k": strings.Repeat("v", crumbs.AttrMax)}}, fault.InvalidInput},
		"a large input":              {client.Request{Agent: publisher, Input: strings.Repeat("x", mesh.PayloadMax)}, fault.PayloadTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := f.client.Start(context.Background(), tt.request); !errors.Is(err, fault.Of(tt.want)) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	if len(f.asked) > 0 {
		t.Error("a run was made")
	}
}

func TestStart_NobodyAnswers(t *testing.T) {
	t.Parallel()
	m, ctx := meshtest.Start(t), context.Background()
	c := client.New(m.Conn)
	got, err := c.Start(ctx, client.Request{Agent: publisher})
	if !errors.Is(err, fault.Of(fault.Unavailable)) || got.ID == "" {
		t.Errorf("got %+v, %v; want UNAVAILABLE and the id to repeat it with", got, err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	if _, err := c.Start(ended, client.Request{Agent: publisher}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestRun_CF_O07_Completed(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	go func() {
		r := f.run((<-f.asked).RunID)
		r.starts()
		r.completes(`{"ok":false}`)
	}()
	got, err := f.client.Run(context.Background(), client.Request{Agent: publisher, RunID: "run_1"})
	want := client.Outcome{Run: "run_1", Status: client.Completed, Output: json.RawMessage(`{"ok":false}`), FinishReason: "stop", Steps: 2,
		Files: []crumbs.File{{Kind: "file", URI: "files:a"}}, Usage: &crumbs.Usage{TotalTokens: 7}, Cost: &crumbs.Cost{Value: 9, Currency: "USD"},
		Duration: 1500 * time.Millisecond, Warnings: []string{"mind the gap"}, Seq: 2}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("%v\n%s", err, diff)
	}
	output := struct{ OK bool }{true}
	if err := got.Decode(&output); err != nil || output.OK {
		t.Errorf("got %+v, %v; want false", output, err)
	}
	if err := got.Decode(new(int)); !errors.Is(err, fault.Of(fault.InvalidMessage)) {
		t.Errorf("got %v, want INVALID_MESSAGE", err)
	}
}

func TestRun_FailedAndCancelled(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	for id, tt := range map[crumbs.RunID]struct {
		code   fault.Code
		status client.Status
	}{
		"run_failed":    {fault.ModelError, client.Failed},
		"run_late":      {fault.RunDeadlineExceeded, client.Failed},
		"run_cancelled": {fault.RunCancelled, client.Cancelled},
	} {
		r := f.run(id)
		r.starts()
		r.asks(0, true)
		r.fails(fault.New(tt.code, "no more"))
		got, err := f.client.Run(context.Background(), client.Request{Agent: publisher, RunID: id})
		if err != nil || got.Status != tt.status || got.Err == nil || got.Err.Code != tt.code || got.Checkpoints != nil || got.Seq != 3 {
			t.Errorf("%s: got %+v, %v; want %s with %s", id, got, err, tt.status, tt.code)
		}
		if err := got.Decode(new(any)); !errors.Is(err, fault.Of(tt.code)) {
			t.Errorf("%s: got %v, want the run's error", id, err)
		}
	}
}

// A run that waits for people is an outcome of its own, with what is still asked;
// an answer later the next outcome comes, not the same one again.
func TestRun_CF_O08_SuspensionIsAnOutcome(t *testing.T) {
	t.Parallel()
	f, ctx := newFake(t), context.Background()
	r := f.run("run_1")
	r.starts()
	r.asks(0, false)
	r.asks(1, true)
	out, err := f.client.Run(ctx, client.Request{Agent: publisher, RunID: r.id})
	if err != nil || out.Status != client.Suspended || out.Seq != 3 || len(out.Checkpoints) != 2 || out.Checkpoints[1].CheckpointID != "run_1.1.1" {
		t.Fatalf("got %+v, %v; want suspended with two questions", out, err)
	}
	if err := out.Decode(new(any)); !errors.Is(err, fault.Of(fault.InvalidMessage)) {
		t.Errorf("got %v, want INVALID_MESSAGE: there is no output", err)
	}
	receipt, err := f.client.Resume(ctx, out.Checkpoints[0].CheckpointID, client.Approve(out.Checkpoints[0], ada))
	if err != nil || receipt.Applied || receipt.Decision.Outcome != crumbs.DecideApprove {
		t.Fatalf("got %+v, %v; want it recorded", receipt, err)
	}
	next := make(chan client.Outcome)
	go func() {
		out, err := f.client.Wait(ctx, r.id, client.After(out.Seq))
		if err != nil {
			t.Error(err)
		}
		next <- out
	}()
	r.resumes(0, true)
	if out = <-next; out.Status != client.Suspended || out.Seq != 4 || len(out.Checkpoints) != 1 || out.Checkpoints[0].CheckpointID != "run_1.1.1" {
		t.Fatalf("got %+v, want suspended with the other question", out)
	}
	r.resumes(1, false)
	r.completes(`"done"`)
	for _, opts := range [][]client.FollowOption{nil, {client.After(4), client.WithDeltas()}} {
		if out, err = f.client.Wait(ctx, r.id, opts...); err != nil || out.Status != client.Completed || out.Checkpoints != nil {
			t.Errorf("got %+v, %v; want completed", out, err)
		}
	}
}

func TestFollow_RunNobodyKnows(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	if got, err := types(f, "run_unknown"); !errors.Is(err, fault.Of(fault.RunNotFound)) {
		t.Errorf("got %v, %v; want RUN_NOT_FOUND", got, err)
	}
	if got, err := types(f, "run.1"); !errors.Is(err, fault.Of(fault.InvalidName)) {
		t.Errorf("got %v, %v; want INVALID_NAME", got, err)
	}
	if _, err := f.client.Wait(context.Background(), "run_unknown"); !errors.Is(err, fault.Of(fault.RunNotFound)) {
		t.Errorf("got %v, want RUN_NOT_FOUND", err)
	}
	// A refused request has no record, and one crumb that says why.
	f.run("run_refused").fails(fault.New(fault.AgentNotFound, "no such agent"))
	if got, err := types(f, "run_refused"); err != nil || len(got) != 1 {
		t.Errorf("got %v, %v; want the one crumb", got, err)
	}
}

func TestFollow_Options(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r := f.run("run_1")
	r.starts()
	r.asks(0, true)
	if got, err := types(f, r.id, client.UntilSuspended()); err != nil || len(got) != 2 {
		t.Errorf("got %v, %v; want two crumbs", got, err)
	}
	r.resumes(0, false)
	r.completes(`1`)
	got, err := types(f, r.id, client.After(2), client.WithDeltas(), client.Started(publisher))
	if diff := cmp.Diff([]string{crumbs.TypeHumanResumed, crumbs.TypeRunEnded}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	var all []string
	ctx, end := context.WithCancel(context.Background())
	for item, err := range f.client.FollowAll(ctx, time.Unix(1, 0), false) {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			break
		}
		if all = append(all, item.Type); len(all) == 4 {
			end()
		}
	}
	end()
	if len(all) != 4 {
		t.Errorf("got %v, want four crumbs", all)
	}
}

// A run whose crumbs aged out is over or says so; nobody waits for ever.
func TestFollow_F128_CrumbsAgedOut(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	long := crumbs.At(time.Now().Add(-time.Hour))
	f.view(crumbs.RunView{RunID: "run_old", Status: "completed", Seq: 5, EndedAt: &long})
	f.view(crumbs.RunView{RunID: "run_never", Status: "cancelled", EndedAt: &long})
	_, err := types(f, "run_old", client.After(3))
	if !errors.Is(err, fault.Of(fault.CrumbsExpired)) || fault.From(err).Context["firstSeq"] != uint64(6) {
		t.Errorf("got %v, want CRUMBS_EXPIRED with firstSeq 6", err)
	}
	if got, err := types(f, "run_old", client.After(5)); err != nil || got != nil {
		t.Errorf("got %v, %v; want the end", got, err)
	}
	if _, err := types(f, "run_never"); !errors.Is(err, fault.Of(fault.RunNotFound)) {
		t.Errorf("got %v, want RUN_NOT_FOUND", err)
	}
	// Some are left: the first of them is named.
	r := f.run("run_1")
	r.starts()
	r.asks(0, true)
	s, err := f.conn.JS.Stream(context.Background(), crumbs.StreamCrumbs)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(context.Background(), jetstream.WithPurgeSequence(r.fence.Stream)); err != nil {
		t.Fatal(err)
	}
	if _, err := types(f, r.id); !errors.Is(err, fault.Of(fault.CrumbsExpired)) || fault.From(err).Context["firstSeq"] != uint64(2) {
		t.Errorf("got %v, want CRUMBS_EXPIRED with firstSeq 2", err)
	}
}

// A run that is on record and has no crumbs yet is waited for.
func TestFollow_RunWithoutCrumbsYet(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	now := crumbs.At(time.Now())
	f.view(crumbs.RunView{RunID: "run_1", Status: "failed", Seq: 2, EndedAt: &now})
	f.view(crumbs.RunView{RunID: "run_2", Status: "running", Seq: 1})
	done := make(chan int)
	for _, id := range []crumbs.RunID{"run_1", "run_2"} {
		go func() {
			got, err := types(f, id)
			if err != nil {
				t.Error(err)
			}
			done <- len(got)
		}()
	}
	for _, id := range []crumbs.RunID{"run_1", "run_2"} {
		r := f.run(id)
		r.starts()
		r.completes(`1`)
		if n := <-done; n != 2 {
			t.Errorf("%d crumbs, want 2", n)
		}
	}
}

func TestResume_WhatIsSent(t *testing.T) {
	t.Parallel()
	f, ctx := newFake(t), context.Background()
	q := crumbs.HumanRequired{CheckpointID: "run_1.1.0", ArgsHash: hash}
	edited := client.Approve(q, ada)
	edited.Args, edited.Via = map[string]int{"n": 1}, decision.ViaCLI
	head := `{"checkpointId":"run_1.1.0","argsHash":"` + hash + `","outcome":`
	by := `"by":{"iss":"local","sub":"ada"},"via":`
	for name, tt := range map[string]struct {
		answer client.Answer
		want   string
	}{
		"approve":     {client.Approve(q, ada), head + `"approve",` + by + `"api"}`},
		"edited":      {edited, head + `"approve","args":{"n":1},` + by + `"cli"}`},
		"reject":      {client.Reject(q, ada, "not today"), head + `"reject","reason":"not today",` + by + `"api"}`},
		"reply false": {client.Reply(q, ada, false), head + `"answer","response":false,` + by + `"api"}`},
		"reply null":  {client.Reply(q, ada, nil), head + `"answer","response":null,` + by + `"api"}`},
		"reply text":  {client.Reply(q, ada, ""), head + `"answer","response":"",` + by + `"api"}`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := f.client.Resume(ctx, q.CheckpointID, tt.answer); err != nil {
				t.Fatal(err)
			}
			if got := f.body("approvals.decide"); got != tt.want {
				t.Errorf("sent %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestResume_Refused(t *testing.T) {
	t.Parallel()
	f, ctx := newFake(t), context.Background()
	value := client.Approve(crumbs.HumanRequired{}, ada)
	value.Value = true
	args := client.Approve(crumbs.HumanRequired{}, ada)
	args.Args = func() {}
	for name, tt := range map[string]struct {
		checkpoint crumbs.CheckpointID
		answer     client.Answer
		want       fault.Code
	}{
		"taken":                {"run_1.9.9", client.Approve(crumbs.HumanRequired{}, ada), fault.CheckpointNotFound},
		"no checkpoint":        {"run_1", client.Approve(crumbs.HumanRequired{}, ada), fault.InvalidName},
		"a value to approve":   {"run_1.1.0", value, fault.DecisionInvalid},
		"args that are none":   {"run_1.1.0", args, fault.InvalidInput},
		"a value that is none": {"run_1.1.0", client.Reply(crumbs.HumanRequired{}, ada, func() {}), fault.InvalidInput},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.client.Resume(ctx, tt.checkpoint, tt.answer)
			if !errors.Is(err, fault.Of(tt.want)) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if tt.want == fault.CheckpointNotFound && fault.From(err).Context["by"] == nil {
				t.Errorf("context %v does not say by whom", fault.From(err).Context)
			}
		})
	}
}

func TestClient_ThinCalls(t *testing.T) {
	t.Parallel()
	f, ctx := newFake(t), context.Background()
	f.view(crumbs.RunView{RunID: "run_1", Status: "running"})
	check := func(name, endpoint, body string, ok bool, err error) {
		t.Helper()
		if err != nil || !ok {
			t.Errorf("%s: %v, answer as served: %v", name, err, ok)
		}
		if got := f.body(endpoint); endpoint != "" && got != body {
			t.Errorf("%s: sent %s, want %s", name, got, body)
		}
	}
	view, err := f.client.RunView(ctx, "run_1")
	check("RunView", "", "", view.Status == "running", err)
	runs, err := f.client.Runs(ctx, crumbs.RunList{Status: "running", Limit: 5})
	check("Runs", "runs.list", `{"status":"running","limit":5}`, len(runs.Runs) == 1, err)
	cancelled, err := f.client.Cancel(ctx, "run_1", "enough")
	check("Cancel", "runs.cancel", `{"runId":"run_1","reason":"enough"}`, cancelled.Status == "running", err)
	page, err := f.client.Approvals(ctx, decision.Query{RunID: "run_1"})
	check("Approvals", "approvals.list", `{"runId":"run_1"}`, len(page.Approvals) == 1, err)
	row, err := f.client.Approval(ctx, "run_1.1.0")
	check("Approval", "approvals.get", `{"checkpointId":"run_1.1.0"}`, row.Status == decision.StatusOpen, err)
	agents, err := f.client.Agents(ctx)
	check("Agents", "agents.list", `{}`, agents.Revision == "prj_1", err)
	definition, err := f.client.Agent(ctx, publisher, "")
	check("Agent", "agents.get", `{"agentId":"publisher"}`, string(definition) == `{"id":"publisher"}`, err)
	applied, err := f.client.Apply(ctx, crumbs.AgentsApply{Agents: []json.RawMessage{}, DryRun: true})
	check("Apply", "agents.apply", `{"agents":[],"dryRun":true}`, applied.Changed, err)
	tools, err := f.client.Tools(ctx)
	check("Tools", "tools.list", `{}`, len(tools.Tools) == 1, err)

	for name, call := range map[string]func() error{
		"RunView":  func() error { _, err := f.client.RunView(ctx, ""); return err },
		"Cancel":   func() error { _, err := f.client.Cancel(ctx, "a.b", ""); return err },
		"Approval": func() error { _, err := f.client.Approval(ctx, "x"); return err },
	} {
		if err := call(); !errors.Is(err, fault.Of(fault.InvalidName)) {
			t.Errorf("%s: got %v, want INVALID_NAME", name, err)
		}
	}
}

func TestConnect(t *testing.T) {
	t.Parallel()
	m, ctx := meshtest.Start(t, meshtest.WithListener()), context.Background()
	c, err := client.Connect(ctx, client.Config{Server: m.Server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Agents(ctx); !errors.Is(err, fault.Of(fault.Unavailable)) {
		t.Errorf("got %v, want UNAVAILABLE: nobody serves", err)
	}
	c.Close()
	if _, err := c.Agents(ctx); !errors.Is(err, fault.Of(fault.Unavailable)) {
		t.Errorf("got %v, want UNAVAILABLE: it is closed", err)
	}
	shared := client.New(m.Conn)
	shared.Close()
	if !m.Conn.NATS.IsConnected() {
		t.Error("Close closed a connection that is not the client's")
	}
	if _, err := client.Connect(ctx, client.Config{Server: "nats://127.0.0.1:1"}); !errors.Is(err, fault.Of(fault.Unavailable)) {
		t.Errorf("got %v, want UNAVAILABLE", err)
	}
	if _, err := client.Connect(ctx, client.Config{Access: mesh.Access{NKey: t.TempDir()}}); !errors.Is(err, fault.Of(fault.InvalidConfig)) {
		t.Errorf("got %v, want INVALID_CONFIG", err)
	}
}
