package worker

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// take removes the copy that waits, as an orchestrator that refuses it does.
func (b bench) take(id crumbs.CheckpointID) bool {
	b.t.Helper()
	m := b.inbox(id)
	if m == nil {
		return false
	}
	s, err := b.conn.JS.Stream(context.Background(), crumbs.StreamInbox)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := s.DeleteMsg(context.Background(), m.Sequence); err != nil {
		b.t.Fatal(err)
	}
	return true
}

// TestPublisher_Rests: a decision whose copies are taken without a word rests after
// copiesMax of them, with growing waits that are longer than a rollout; whoever
// answers again has it published again. One that nobody takes is never given up.
func TestPublisher_Rests(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), context.Background()
	p := b.Publisher
	refused, waiting := approval(t, "run_refused", `{"a":1}`), approval(t, "run_waiting", `{"a":2}`)
	for _, q := range []crumbs.HumanRequired{refused, waiting} {
		b.store(q.RunID, q)
		if _, err := b.decideAs("ada", q.CheckpointID); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	now, copies := begin, 0
	var last time.Time
	round := func() {
		if b.take(refused.CheckpointID) {
			copies++
			last = now
		}
		now = now.Add(2 * copyMax)
		p.round(ctx, now)
	}
	for range 3 * copiesMax {
		round()
	}
	if copies != 1+copiesMax { // the first, and those that were repeated
		t.Errorf("%d copies were published and taken, want %d", copies, 1+copiesMax)
	}
	if !p.due[refused.CheckpointID].rests || p.due[waiting.CheckpointID].rests {
		t.Errorf("refused %+v, waiting %+v: want the refused one to rest", p.due[refused.CheckpointID], p.due[waiting.CheckpointID])
	}
	if at := p.due[waiting.CheckpointID].at; at.Sub(now) > republishMax {
		t.Errorf("what nobody takes is due in %s, want at most %s", at.Sub(now), republishMax)
	}
	if b.inbox(waiting.CheckpointID) == nil || !last.Before(now) {
		t.Error("the copy that nobody took is gone")
	}
	// A survey leaves it alone.
	if err := p.Survey(ctx); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(p.dueAt(now.Add(1000*time.Hour)), refused.CheckpointID) {
		t.Error("a survey woke what rests")
	}
	// The same person once more.
	if _, err := b.decideAs("ada", refused.CheckpointID); err != nil {
		t.Fatal(err)
	}
	p.round(ctx, now)
	if b.inbox(refused.CheckpointID) == nil {
		t.Error("the answer given again was not published")
	}
	// Settled while it rests, it is forgotten.
	p.due[refused.CheckpointID] = repeat{rests: true}
	b.store("run_refused", crumbs.HumanResumed{Base: crumbs.Base{Type: crumbs.TypeHumanResumed, RunID: "run_refused", AgentID: "payer", SessionID: "ses_1", Seq: 5, Timestamp: refused.Timestamp + 1},
		CheckpointID: refused.CheckpointID, Kind: refused.Kind, Outcome: crumbs.ResumedWithdrawn})
	if _, err := b.Register.Look(ctx, refused.CheckpointID); err != nil {
		t.Fatal(err)
	}
	if err := p.Survey(ctx); err != nil {
		t.Fatal(err)
	}
	if _, watched := p.due[refused.CheckpointID]; watched {
		t.Error("a settled question is still watched")
	}
}

// TestPublisher_Rests_AfterARollout: the waits between the copies add up to more than
// a rollout of the verifiers takes.
func TestPublisher_Rests_AfterARollout(t *testing.T) {
	t.Parallel()
	p := NewPublisher(nil, nil, RepublishEvery)
	begin := time.UnixMilli(1_772_600_767_008)
	now, n := begin, 0
	for r := (repeat{}); !r.rests; n++ {
		r = p.schedule("run_1.1.0", now, true)
		now = r.at
	}
	if n != copiesMax+1 || now.Sub(begin) < 2*time.Hour || now.Sub(begin) > 12*time.Hour {
		t.Errorf("%d copies in %s", n, now.Sub(begin))
	}
}
