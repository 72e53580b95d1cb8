package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// bench is a desk without a running consumer: what a crumb does to a row happens
// when the test says so.
type bench struct {
	*Desk
	conn *mesh.Conn
	t    *testing.T
}

func newBench(t *testing.T) bench {
	t.Helper()
	key := decision.NewKey()
	trust, err := decision.NewVerifier(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	conn := meshtest.Start(t).Conn
	r := NewRegister(conn, trust)
	return bench{&Desk{Register: r, Publisher: NewPublisher(conn, r, RepublishEvery), Key: key}, conn, t}
}

// store puts a human crumb on CRUMBS as the orchestrator does, and returns what
// the consumer would deliver.
func (b bench) store(run crumbs.RunID, body any) *mesh.Delivery {
	b.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	var base crumbs.Base
	if err := json.Unmarshal(data, &base); err != nil {
		b.t.Fatal(err)
	}
	event := crumbs.Event{ID: fmt.Sprintf("%s/%d", run, base.Seq), Source: crumbs.Source("orchestrator"), Type: crumbs.CEType(base.Type), RunID: run, Data: data}
	msg, err := event.Message(crumbs.CrumbSubject("payer", run, base.Type))
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.conn.Publish(context.Background(), msg); err != nil {
		b.t.Fatal(err)
	}
	return &mesh.Delivery{Subject: msg.Subject, Header: msg.Header, Data: msg.Data, Count: 1}
}

func approval(t *testing.T, run crumbs.RunID, args string) crumbs.HumanRequired {
	t.Helper()
	hash, err := argument.Hash(json.RawMessage(args))
	if err != nil {
		t.Fatal(err)
	}
	id := crumbs.ToolCallID(run, 1, 0)
	return crumbs.HumanRequired{
		Base:         crumbs.Base{Type: crumbs.TypeHumanRequired, RunID: run, AgentID: "payer", SessionID: "ses_1", Seq: 4, Timestamp: 1_772_600_767_008, Step: 1},
		CheckpointID: id, Kind: crumbs.KindApproval, ToolCallID: id, ToolName: "tool_pay",
		Args: json.RawMessage(args), ArgsHash: hash, Schema: json.RawMessage(`{"type":"object"}`),
	}
}

func (b bench) decideAs(who string, id crumbs.CheckpointID) (decision.Receipt, error) {
	b.t.Helper()
	body, err := json.Marshal(decision.Answer{CheckpointID: id, Outcome: crumbs.DecideApprove, By: &crumbs.Principal{Issuer: "local", Subject: who}, Via: decision.ViaCLI})
	if err != nil {
		b.t.Fatal(err)
	}
	out, err := b.decide(context.Background(), body)
	if err != nil {
		return decision.Receipt{}, err
	}
	return out.(decision.Receipt), nil
}

func (b bench) inbox(id crumbs.CheckpointID) *mesh.Stored {
	b.t.Helper()
	m, err := b.conn.Last(context.Background(), crumbs.StreamInbox, crumbs.DecisionSubject(id.Run(), id))
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

// TestDesk pins what happens before the consumer has seen a crumb.
func TestDesk(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), context.Background()

	t.Run("F027 an answer right after the crumb", func(t *testing.T) {
		q := approval(t, "run_fast", `{"amount":10}`)
		late := b.store("run_fast", q)
		if _, err := b.decideAs("ada", q.CheckpointID); err != nil {
			t.Fatal(err)
		}
		if err := b.Register.Handle(ctx, late); err != nil {
			t.Fatal(err)
		}
		row, err := b.Register.Row(ctx, q.CheckpointID)
		if err != nil || row.Status != decision.StatusDecided {
			t.Errorf("after the late crumb the row is %q (%v), want decided", row.Status, err)
		}
	})

	t.Run("F025 nothing was asked", func(t *testing.T) {
		for _, id := range []crumbs.CheckpointID{"run_none.1.0", "run_fast.1.7"} {
			if _, err := b.decideAs("ada", id); fault.CodeOf(err) != fault.CheckpointNotFound {
				t.Errorf("%s: %v", id, err)
			}
			if b.inbox(id) != nil {
				t.Errorf("%s: a decision was published", id)
			}
		}
	})

	t.Run("a question settled before the answer", func(t *testing.T) {
		q := approval(t, "run_gone", `{}`)
		b.store("run_gone", q)
		b.store("run_gone", crumbs.HumanResumed{Base: crumbs.Base{Type: crumbs.TypeHumanResumed, RunID: "run_gone", AgentID: "payer", SessionID: "ses_1", Seq: 5, Timestamp: q.Timestamp + 1},
			CheckpointID: q.CheckpointID, Kind: q.Kind, Outcome: crumbs.ResumedWithdrawn})
		_, err := b.decideAs("ada", q.CheckpointID)
		if f := fault.From(err); f.Code != fault.CheckpointNotFound || f.Context["outcome"] != crumbs.ResumedWithdrawn {
			t.Errorf("%v %v", err, f.Context)
		}
	})

	t.Run("a question larger than a message", func(t *testing.T) {
		q := approval(t, "run_large", `{"text":"`+strings.Repeat("x", mesh.InlineMax)+`"}`)
		data, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		short, _, err := b.conn.Blobs(crumbs.AreaCrumb).CheckIn(ctx, "run_large", data, mesh.BaseFields()...)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Register.Handle(ctx, b.store("run_large", short)); err != nil {
			t.Fatal(err)
		}
		row, err := b.Register.Row(ctx, q.CheckpointID)
		if err != nil || row.Checkpoint.DataRef == nil || row.Checkpoint.ArgsHash != q.ArgsHash || len(row.Checkpoint.Args) > 2 {
			t.Fatalf("%+v, %v", row.Checkpoint, err)
		}
		if whole, err := b.Register.whole(ctx, *row.Checkpoint); err != nil || !decision.Same(whole.Args, q.Args) {
			t.Errorf("the whole question has %d bytes of arguments, %v", len(whole.Args), err)
		}
		made, err := b.decideAs("ada", q.CheckpointID)
		if err != nil || made.Decision.ArgsHash != q.ArgsHash {
			t.Errorf("%+v, %v", made, err)
		}
	})

	t.Run("an answer larger than a message", func(t *testing.T) {
		q := approval(t, "run_answer", `{}`)
		b.store("run_answer", q)
		body, err := json.Marshal(decision.Answer{CheckpointID: q.CheckpointID, Outcome: crumbs.DecideApprove, Args: json.RawMessage(`{"text":"` + strings.Repeat("x", mesh.InlineMax) + `"}`),
			By: &crumbs.Principal{Issuer: "local", Subject: "ada"}, Via: decision.ViaAPI})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.decide(ctx, body); fault.CodeOf(err) != fault.PayloadTooLarge {
			t.Errorf("%v", err)
		}
		if row, err := b.Register.Row(ctx, q.CheckpointID); err != nil || row.Status != decision.StatusOpen {
			t.Errorf("row %q, %v: want it open", row.Status, err)
		}
	})

	t.Run("a crumb of another run's question", func(t *testing.T) {
		q := approval(t, "run_victim", `{}`)
		d := b.store("run_victim", q)
		d.Subject = crumbs.CrumbSubject("payer", "run_evil", crumbs.TypeHumanRequired)
		if err := b.Register.Handle(ctx, d); !errors.Is(err, fault.Of(fault.InvalidMessage)) {
			t.Errorf("%v, want %s", err, fault.InvalidMessage)
		}
		if row, err := b.Register.Row(ctx, q.CheckpointID); err != nil || row.Status != "" {
			t.Errorf("row %q, %v: want none", row.Status, err)
		}
	})
}

// TestRebuild deletes the bucket's contents and makes them again from CRUMBS.
func TestRebuild(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), context.Background()
	lost := func() {
		t.Helper()
		s, err := b.conn.JS.Stream(ctx, "KV_"+crumbs.BucketApprovals)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Purge(ctx); err != nil {
			t.Fatal(err)
		}
	}
	open, done, taken, forged := approval(t, "run_open", `{"a":1}`), approval(t, "run_done", `{"a":2}`), approval(t, "run_taken", `{"a":3}`), approval(t, "run_forged", `{"a":4}`)
	for _, q := range []crumbs.HumanRequired{open, done, taken, forged} {
		b.store(q.RunID, q)
	}
	by := crumbs.Principal{Issuer: "local", Subject: "bob"}
	b.store("run_done", crumbs.HumanResumed{Base: crumbs.Base{Type: crumbs.TypeHumanResumed, RunID: "run_done", AgentID: "payer", SessionID: "ses_1", Seq: 5, Timestamp: done.Timestamp + 1},
		CheckpointID: done.CheckpointID, Kind: done.Kind, Outcome: crumbs.ResumedApproved, By: &by})
	b.store("run_odd", map[string]any{"type": crumbs.TypeHumanRequired, "runId": "run_odd"}) // hides no other
	if _, err := b.decideAs("ada", taken.CheckpointID); err != nil {
		t.Fatal(err)
	}
	foreign := forgery(t, forged)
	if err := b.conn.PublishOnce(ctx, foreign); err != nil {
		t.Fatal(err)
	}
	lost()
	if err := b.Register.EnsureBuilt(ctx); err != nil {
		t.Fatal(err)
	}
	want := map[crumbs.CheckpointID]decision.Status{open.CheckpointID: decision.StatusOpen, done.CheckpointID: decision.StatusApplied,
		taken.CheckpointID: decision.StatusDecided, forged.CheckpointID: decision.StatusOpen}
	rows := map[crumbs.CheckpointID]decision.Approval{}
	if err := b.Register.scan(ctx, everyRow, func(row decision.Approval) { rows[row.CheckpointID] = row }); err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(want) {
		t.Errorf("%d rows, want %d", len(rows), len(want))
	}
	for id, status := range want {
		if rows[id].Status != status {
			t.Errorf("%s is %q, want %s", id, rows[id].Status, status)
		}
	}
	_, err := b.decideAs("eve", taken.CheckpointID)
	if f := fault.From(err); f.Code != fault.CheckpointNotFound || f.Context["by"] != (crumbs.Principal{Issuer: "local", Subject: "ada"}) {
		t.Errorf("the adopted decision does not stand: %v %v", err, f.Context)
	}
	if _, err := b.decideAs("ada", taken.CheckpointID); err != nil {
		t.Errorf("the adopted decision repeated by its author: %v", err)
	}
	// With the marker there the rows stand as they are, however few.
	if err := b.Register.bucket.Delete(ctx, string(open.CheckpointID)); err != nil {
		t.Fatal(err)
	}
	if err := b.Register.EnsureBuilt(ctx); err != nil {
		t.Fatal(err)
	}
	if row, err := b.Register.Row(ctx, open.CheckpointID); err != nil || row.Status != "" {
		t.Errorf("a built bucket was built again: %q, %v", row.Status, err)
	}
}

// forgery is a decision that no trusted key signed.
func forgery(t *testing.T, q crumbs.HumanRequired) *nats.Msg {
	t.Helper()
	d := crumbs.Decision{Type: crumbs.TypeDecision, RunID: q.RunID, CheckpointID: q.CheckpointID, ArgsHash: q.ArgsHash, Outcome: crumbs.DecideApprove,
		By: crumbs.Principal{Issuer: "local", Subject: "eve"}, Via: decision.ViaAPI, At: crumbs.At(time.UnixMilli(q.Timestamp))}
	if err := decision.NewKey().Sign(&d); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return &nats.Msg{Subject: crumbs.DecisionSubject(q.RunID, q.CheckpointID), Data: body}
}
