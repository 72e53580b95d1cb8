package approvals_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/approvals"
)

// patience is when a test that waits for a signal gives up.
const patience = 60 * time.Second

// town is a mesh with a run machine that the test plays.
type town struct {
	*meshtest.Mesh
	key decision.Key
	ctx context.Context
	t   *testing.T
}

func newTown(t *testing.T) town {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return town{meshtest.Start(t), decision.NewKey(), ctx, t}
}

// serve runs the service until stop is called, or the test ends.
func (w town) serve(change func(*approvals.Config)) (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	ready, done := make(chan struct{}), make(chan error, 1)
	cfg := approvals.Config{Key: w.key, Ready: func() { close(ready) }}
	if change != nil {
		change(&cfg)
	}
	conn := w.Connect("approvals")
	go func() { done <- approvals.Run(ctx, cfg, conn) }()
	select {
	case <-ready:
	case err := <-done:
		w.t.Fatalf("the service ended: %v", err)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the service ended: %v", err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

func (w town) question(run crumbs.RunID, kind string, i int) crumbs.HumanRequired {
	w.t.Helper()
	args := json.RawMessage(`{"amount":10}`)
	hash, err := argument.Hash(args)
	if err != nil {
		w.t.Fatal(err)
	}
	id := crumbs.ToolCallID(run, 1, i)
	return crumbs.HumanRequired{
		Base:         crumbs.Base{Type: crumbs.TypeHumanRequired, RunID: run, AgentID: "payer", SessionID: "ses_1", Seq: uint64(4 + i), Timestamp: 1_772_600_767_008, Step: 1},
		CheckpointID: id, Kind: kind, ToolCallID: id, ToolName: "tool_pay", Args: args, ArgsHash: hash,
		Schema: json.RawMessage(`{"type":"object","properties":{"amount":{"type":"integer"}}}`),
	}
}

func (w town) crumb(body any) {
	w.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	var base crumbs.Base
	if err := json.Unmarshal(data, &base); err != nil {
		w.t.Fatal(err)
	}
	event := crumbs.Event{ID: fmt.Sprintf("%s/%d", base.RunID, base.Seq), Source: crumbs.Source("orchestrator"), Type: crumbs.CEType(base.Type), RunID: base.RunID, Data: data}
	msg, err := event.Message(crumbs.CrumbSubject(base.AgentID, base.RunID, base.Type))
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.Conn.Publish(w.ctx, msg); err != nil {
		w.t.Fatal(err)
	}
}

func (w town) resume(q crumbs.HumanRequired, outcome string, by *crumbs.Principal) {
	w.t.Helper()
	base := q.Base
	base.Type, base.Seq, base.Timestamp = crumbs.TypeHumanResumed, q.Seq+100, q.Timestamp+1000
	w.crumb(crumbs.HumanResumed{Base: base, CheckpointID: q.CheckpointID, Kind: q.Kind, ToolCallID: q.ToolCallID, Outcome: outcome, By: by})
}

// await returns the row of a question once it has the status.
func (w town) await(id crumbs.CheckpointID, status decision.Status) decision.Approval {
	w.t.Helper()
	kv, err := w.Conn.JS.KeyValue(w.ctx, crumbs.BucketApprovals)
	if err != nil {
		w.t.Fatal(err)
	}
	watch, err := kv.Watch(w.ctx, string(id))
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = watch.Stop() }()
	var row decision.Approval
	for {
		select {
		case <-w.ctx.Done():
			w.t.Fatalf("%s is %q, it did not become %s", id, row.Status, status)
		case e := <-watch.Updates():
			if e == nil {
				continue
			}
			if err := json.Unmarshal(e.Value(), &row); err != nil {
				w.t.Fatal(err)
			}
			if row.Status == status {
				return row
			}
		}
	}
}

func person(who string) *crumbs.Principal { return &crumbs.Principal{Issuer: "local", Subject: who} }

func (w town) decide(a decision.Answer) (decision.Receipt, error) {
	if a.Via == "" {
		a.Via = decision.ViaCLI
	}
	var r decision.Receipt
	return r, w.Conn.Request(w.ctx, crumbs.EndpointApprovalsDecide, a, &r)
}

func (w town) list(q decision.Query) decision.Page {
	w.t.Helper()
	var p decision.Page
	if err := w.Conn.Request(w.ctx, crumbs.EndpointApprovalsList, q, &p); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// waiting returns the decision that waits in INBOX, nil when none does.
func (w town) waiting(id crumbs.CheckpointID) *crumbs.Decision {
	w.t.Helper()
	m, err := w.Conn.Last(w.ctx, crumbs.StreamInbox, crumbs.DecisionSubject(id.Run(), id))
	if err != nil {
		w.t.Fatal(err)
	}
	if m == nil {
		return nil
	}
	return w.decision(m.Header, m.Data)
}

// decision reads a decision as the orchestrator does: schema and signature.
func (w town) decision(header nats.Header, data []byte) *crumbs.Decision {
	w.t.Helper()
	event, err := crumbs.ReadEvent(header, data)
	if err != nil {
		w.t.Fatal(err)
	}
	var d crumbs.Decision
	if err := crumbs.Decode(crumbs.TypeDecision, event.Data, &d); err != nil {
		w.t.Fatal(err)
	}
	if event.Type != crumbs.CEType(crumbs.TypeDecision) || event.ID != string(d.CheckpointID) || event.RunID != d.RunID {
		w.t.Errorf("attributes %+v of the decision on %s", event, d.CheckpointID)
	}
	trust, err := decision.NewVerifier(w.key.Public())
	if err != nil {
		w.t.Fatal(err)
	}
	if err := trust.Verify(d); err != nil {
		w.t.Error(err)
	}
	return &d
}

func TestRun(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.serve(nil)

	t.Run("F018 CF_H04 approved, applied, told", func(t *testing.T) {
		q := w.question("run_a", crumbs.KindApproval, 0)
		w.crumb(q)
		w.await(q.CheckpointID, decision.StatusOpen)
		a := decision.Answer{CheckpointID: q.CheckpointID, ArgsHash: q.ArgsHash, Outcome: crumbs.DecideApprove, Args: json.RawMessage(`{"amount":9}`), By: person("ada")}
		first, err := w.decide(a)
		if err != nil || first.Applied || first.Status != decision.StatusDecided {
			t.Fatalf("%+v, %v", first, err)
		}
		if diff := cmp.Diff(&first.Decision, w.waiting(q.CheckpointID)); diff != "" {
			t.Errorf("what waits is not what was told: %s", diff)
		}
		w.resume(q, crumbs.ResumedEdited, person("ada"))
		row := w.await(q.CheckpointID, decision.StatusApplied)
		if row.Outcome != crumbs.ResumedEdited || row.By == nil || *row.By != *person("ada") {
			t.Errorf("row %+v", row)
		}
		// F018: the same answer again, with another spelling of the arguments.
		a.Args = json.RawMessage(`{ "amount": 9.0 }`)
		again, err := w.decide(a)
		if err != nil || !again.Applied {
			t.Errorf("F018 repeat: %+v, %v", again, err)
		}
		if diff := cmp.Diff(first.Decision, again.Decision); diff != "" {
			t.Errorf("F018 another decision: %s", diff)
		}
		for _, other := range []decision.Answer{
			{CheckpointID: q.CheckpointID, Outcome: crumbs.DecideReject, By: person("ada")},
			{CheckpointID: q.CheckpointID, Outcome: crumbs.DecideApprove, Args: a.Args, By: person("bob")},
			{CheckpointID: q.CheckpointID, Outcome: crumbs.DecideAnswer, Response: json.RawMessage(`1`), By: person("bob")},
		} {
			_, err := w.decide(other)
			f := fault.From(err)
			if f.Code != fault.CheckpointNotFound || f.Context["outcome"] != crumbs.ResumedEdited || f.Context["at"] == nil {
				t.Errorf("CF-H04 %v %v", err, f.Context)
			}
			if by, _ := f.Context["by"].(map[string]any); by["sub"] != "ada" {
				t.Errorf("by %v, want ada", f.Context["by"])
			}
		}
		m, err := w.Conn.Last(w.ctx, "KV_approvals", "$KV.approvals."+string(q.CheckpointID))
		if err != nil || m.Header.Get(jetstream.MsgTTLHeader) != "1296000s" {
			t.Errorf("a settled row is kept %q (%v), want 15 days", m.Header.Get(jetstream.MsgTTLHeader), err)
		}
	})

	t.Run("F028 falsy answers", func(t *testing.T) {
		for i, value := range []string{`false`, `0`, `""`, `null`} {
			q := w.question("run_falsy", crumbs.KindInput, i)
			w.crumb(q)
			r, err := w.decide(decision.Answer{CheckpointID: q.CheckpointID, Outcome: crumbs.DecideAnswer, Response: json.RawMessage(value), By: person("ada")})
			if err != nil || string(r.Decision.Response) != value {
				t.Errorf("%s: %+v, %v", value, r, err)
				continue
			}
			if d := w.waiting(q.CheckpointID); d == nil || string(d.Response) != value {
				t.Errorf("%s: %+v waits", value, d)
			}
		}
	})

	t.Run("F030 wrong kind, other arguments", func(t *testing.T) {
		gate, ask := w.question("run_kind", crumbs.KindApproval, 0), w.question("run_kind", crumbs.KindInput, 1)
		w.crumb(gate)
		w.crumb(ask)
		for _, a := range []decision.Answer{
			{CheckpointID: gate.CheckpointID, Outcome: crumbs.DecideAnswer, Response: json.RawMessage(`{"approved":true}`), By: person("ada")},
			{CheckpointID: ask.CheckpointID, Outcome: crumbs.DecideApprove, By: person("ada")},
			{CheckpointID: gate.CheckpointID, Outcome: crumbs.DecideApprove, ArgsHash: "0000000000000000000000000000000000000000000000000000000000000000", By: person("ada")},
			{CheckpointID: gate.CheckpointID, Outcome: crumbs.DecideApprove, Args: json.RawMessage(`{"amount":"much"}`), By: person("ada")},
		} {
			if _, err := w.decide(a); fault.CodeOf(err) != fault.DecisionInvalid {
				t.Errorf("%s %s: %v", a.Outcome, a.CheckpointID, err)
			}
		}
		if _, err := w.decide(decision.Answer{CheckpointID: gate.CheckpointID, Outcome: crumbs.DecideApprove}); fault.CodeOf(err) != fault.InvalidMessage {
			t.Errorf("without a principal: %v", err)
		}
		if p := w.list(decision.Query{RunID: "run_kind", Status: decision.StatusOpen}); len(p.Approvals) != 2 {
			t.Errorf("%d questions stay open, want 2", len(p.Approvals))
		}
		for _, q := range []crumbs.HumanRequired{gate, ask} {
			if w.waiting(q.CheckpointID) != nil {
				t.Errorf("a decision on %s was published", q.CheckpointID)
			}
			if _, err := w.decide(decision.Answer{CheckpointID: q.CheckpointID, Outcome: crumbs.DecideReject, Reason: "no", By: person("ada")}); err != nil {
				t.Errorf("reject %s: %v", q.Kind, err)
			}
		}
	})

	t.Run("one of many deciders wins", func(t *testing.T) {
		const deciders = 16
		q := w.question("run_race", crumbs.KindApproval, 0)
		w.crumb(q)
		outcomes := []string{crumbs.DecideApprove, crumbs.DecideReject}
		results, errs := make([]decision.Receipt, deciders), make([]error, deciders)
		var all sync.WaitGroup
		start := make(chan struct{})
		for i := range deciders {
			all.Go(func() {
				<-start
				results[i], errs[i] = w.decide(decision.Answer{CheckpointID: q.CheckpointID, Outcome: outcomes[i%2], By: person(fmt.Sprint("decider ", i))})
			})
		}
		close(start)
		all.Wait()
		won := -1
		for i, err := range errs {
			switch {
			case err == nil && won < 0:
				won = i
			case fault.CodeOf(err) != fault.CheckpointNotFound:
				t.Errorf("decider %d: %v", i, err)
			}
		}
		if won < 0 {
			t.Fatal("nobody won")
		}
		if diff := cmp.Diff(&results[won].Decision, w.waiting(q.CheckpointID)); diff != "" {
			t.Errorf("the winner's decision is not the one that waits: %s", diff)
		}
	})

	t.Run("F152 the run went on without an answer", func(t *testing.T) {
		expired, withdrawn := w.question("run_over", crumbs.KindApproval, 0), w.question("run_over", crumbs.KindInput, 1)
		past := crumbs.At(time.UnixMilli(expired.Timestamp))
		expired.ExpiresAt = &past
		w.crumb(expired)
		w.crumb(withdrawn)
		// An answer past expiresAt is recorded: the run decides which came first.
		if _, err := w.decide(decision.Answer{CheckpointID: expired.CheckpointID, Outcome: crumbs.DecideApprove, By: person("ada")}); err != nil {
			t.Fatal(err)
		}
		w.resume(expired, crumbs.ResumedExpired, nil)
		w.resume(withdrawn, crumbs.ResumedWithdrawn, nil)
		w.await(expired.CheckpointID, decision.StatusExpired)
		w.await(withdrawn.CheckpointID, decision.StatusWithdrawn)
		r, err := w.decide(decision.Answer{CheckpointID: expired.CheckpointID, Outcome: crumbs.DecideApprove, By: person("ada")})
		if err != nil || r.Applied || r.Status != decision.StatusExpired {
			t.Errorf("%+v, %v: want a receipt that says expired", r, err)
		}
		_, err = w.decide(decision.Answer{CheckpointID: withdrawn.CheckpointID, Outcome: crumbs.DecideReject, By: person("ada")})
		if f := fault.From(err); f.Code != fault.CheckpointNotFound || f.Context["status"] != string(decision.StatusWithdrawn) {
			t.Errorf("%v %v", err, f.Context)
		}
	})

	t.Run("resumed before required", func(t *testing.T) {
		q := w.question("run_turned", crumbs.KindApproval, 0)
		w.resume(q, crumbs.ResumedRejected, person("bob"))
		w.await(q.CheckpointID, decision.StatusApplied)
		w.crumb(q)
		last := w.question("run_turned", crumbs.KindApproval, 1)
		w.crumb(last)
		w.await(last.CheckpointID, decision.StatusOpen)
		var row decision.Approval
		if err := w.Conn.Request(w.ctx, crumbs.EndpointApprovalsGet, decision.Selection{CheckpointID: q.CheckpointID}, &row); err != nil || row.Status != decision.StatusApplied {
			t.Errorf("row %q, %v: it went back", row.Status, err)
		}
	})

	t.Run("CF_H26 listed by creation", func(t *testing.T) {
		var want []crumbs.CheckpointID
		for i := range 4 {
			want = append(want, crumbs.ToolCallID("run_list", 1, i))
		}
		for _, i := range []int{3, 0, 2, 1} {
			q := w.question("run_list", crumbs.KindApproval, i)
			q.Timestamp = int64(i / 2) // two of one decision
			w.crumb(q)
			w.await(q.CheckpointID, decision.StatusOpen)
		}
		ids := func(p decision.Page) (ids []crumbs.CheckpointID) {
			for _, row := range p.Approvals {
				ids = append(ids, row.CheckpointID)
			}
			return ids
		}
		p := w.list(decision.Query{RunID: "run_list", Status: decision.StatusOpen})
		if diff := cmp.Diff(want, ids(p)); diff != "" || p.Truncated {
			t.Errorf("truncated=%t %s", p.Truncated, diff)
		}
		p = w.list(decision.Query{RunID: "run_list", Limit: 3})
		if diff := cmp.Diff(want[:3], ids(p)); diff != "" || !p.Truncated {
			t.Errorf("truncated=%t %s", p.Truncated, diff)
		}
		if p := w.list(decision.Query{RunID: "run_nobody"}); p.Approvals == nil || len(p.Approvals) != 0 {
			t.Errorf("of a run without questions: %v, want an empty list", p.Approvals)
		}
	})
}

// TestRun_CrashBetweenRecordAndPublish_F019: what was accepted reaches the run
// through another process, and is called applied only when the run said so.
func TestRun_CrashBetweenRecordAndPublish_F019(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	crashed := errors.New("crash")
	stop := w.serve(func(c *approvals.Config) {
		c.RepublishEvery = time.Hour
		c.AfterRecord = func(crumbs.CheckpointID) error { return crashed }
	})
	q := w.question("run_crash", crumbs.KindApproval, 0)
	w.crumb(q)
	a := decision.Answer{CheckpointID: q.CheckpointID, Outcome: crumbs.DecideApprove, By: person("ada")}
	if _, err := w.decide(a); fault.CodeOf(err) != fault.InternalError {
		t.Fatalf("%v, want the crash", err)
	}
	recorded := w.await(q.CheckpointID, decision.StatusDecided)
	stop()
	if w.waiting(q.CheckpointID) != nil {
		t.Fatal("the decision was published before the crash")
	}

	sent := make(chan *nats.Msg, 64)
	sub, err := w.Conn.NATS.ChanSubscribe(crumbs.DecisionSubject("run_crash", q.CheckpointID), sent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	receive := func() *crumbs.Decision {
		t.Helper()
		select {
		case m := <-sent:
			return w.decision(m.Header, m.Data)
		case <-w.ctx.Done():
			t.Fatal("nothing was published")
			return nil
		}
	}
	w.serve(func(c *approvals.Config) { c.RepublishEvery = 10 * time.Millisecond })
	// Published at the start, and again while the run says nothing.
	for range 2 {
		if diff := cmp.Diff(recorded.Decision, receive()); diff != "" {
			t.Fatalf("another decision was published: %s", diff)
		}
	}
	info, err := w.Conn.JS.Stream(w.ctx, crumbs.StreamInbox)
	if err != nil || info.CachedInfo().State.Msgs != 1 {
		t.Errorf("%d messages wait, want 1 (%v)", info.CachedInfo().State.Msgs, err)
	}
	// The run takes it and dies before it has applied it.
	if err := info.DeleteMsg(w.ctx, 1); err != nil {
		t.Fatal(err)
	}
	receive()
	if r, err := w.decide(a); err != nil || r.Applied || r.Status != decision.StatusDecided {
		t.Errorf("the author asks again: %+v, %v", r, err)
	}
	w.resume(q, crumbs.ResumedApproved, person("ada"))
	w.await(q.CheckpointID, decision.StatusApplied)
	if r, err := w.decide(a); err != nil || !r.Applied {
		t.Errorf("the author asks again: %+v, %v", r, err)
	}
}

// TestRun_Rebuild_F026: a service that finds its rows gone makes them again before
// it serves, and an answer needs nothing but the id.
func TestRun_Rebuild_F026(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	stop := w.serve(nil)
	open, done := w.question("run_open", crumbs.KindApproval, 0), w.question("run_done", crumbs.KindApproval, 0)
	w.crumb(open)
	w.crumb(done)
	w.await(done.CheckpointID, decision.StatusOpen)
	w.resume(done, crumbs.ResumedRejected, person("bob"))
	before := []decision.Approval{w.await(done.CheckpointID, decision.StatusApplied), w.await(open.CheckpointID, decision.StatusOpen)}
	stop()
	rows, err := w.Conn.JS.Stream(w.ctx, "KV_"+crumbs.BucketApprovals)
	if err != nil {
		t.Fatal(err)
	}
	if err := rows.Purge(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.serve(nil)
	if diff := cmp.Diff(before, w.list(decision.Query{}).Approvals); diff != "" {
		t.Errorf("the rows differ (-before +after): %s", diff)
	}
	if _, err := w.decide(decision.Answer{CheckpointID: open.CheckpointID, Outcome: crumbs.DecideApprove, By: person("ada")}); err != nil || w.waiting(open.CheckpointID) == nil {
		t.Errorf("the answer after it: %v", err)
	}
}

func TestRun_RefusesToStart(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.serve(nil)() // the key is the mesh's
	seed := filepath.Join(t.TempDir(), "seed")
	for name, cfg := range map[string]approvals.Config{
		"no key":             {},
		"no such key":        {KeyFile: seed},
		"another key":        {Key: decision.NewKey()},
		"in another's place": {Key: decision.NewKey(), Replaces: decision.NewKey().Public()},
		"in nobody's place":  {Key: w.key, Replaces: "?"},
		"no key to trust":    {Key: w.key, Trust: []string{"?"}},
		"negative duration":  {Key: w.key, RepublishEvery: -time.Second},
		"negative long wait": {Key: w.key, Grace: -time.Second},
	} {
		if err := approvals.Run(w.ctx, cfg, w.Conn); fault.CodeOf(err) != fault.InvalidConfig {
			t.Errorf("%s: %v, want %s", name, err, fault.InvalidConfig)
		}
	}
	if err := w.Conn.JS.DeleteConsumer(w.ctx, crumbs.StreamCrumbs, mesh.ConsumerApprovals); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(seed); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a key file was made: %v", err)
	}
	if err := approvals.Run(w.ctx, approvals.Config{Key: w.key}, w.Conn); fault.CodeOf(err) != fault.TopologyMissing {
		t.Errorf("%v, want %s", err, fault.TopologyMissing)
	}
}

// TestRun_KeyOfTheMesh: the first start makes the key file and the key the mesh's;
// what it signs is what a replica of the same file signs. A new key takes its place
// when it is told so; a bucket that was emptied gets the key of who starts then.
func TestRun_KeyOfTheMesh(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	file := filepath.Join(t.TempDir(), "approvals.key")
	of := func(c *approvals.Config) { c.Key, c.KeyFile = decision.Key{}, file }
	w.serve(of)()
	var err error
	if w.key, err = decision.LoadSeed(file); err != nil {
		t.Fatal(err)
	}
	stop := w.serve(of)
	q := w.question("run_a", crumbs.KindApproval, 0)
	w.crumb(q)
	if r, err := w.decide(decision.Answer{CheckpointID: q.CheckpointID, Outcome: crumbs.DecideApprove, By: person("ada")}); err != nil || r.Decision.KeyID != w.key.ID() {
		t.Fatalf("%+v, %v, want a decision signed by %s", r, err, w.key.ID())
	}
	w.waiting(q.CheckpointID) // verifies it
	stop()
	signer := func() decision.Signer {
		t.Helper()
		r, err := w.Conn.Bucket(crumbs.BucketApprovals).Get(w.ctx, decision.SignerRow)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Exists() {
			return decision.Signer{}
		}
		s, err := decision.ReadSigner(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	old, next := w.key, decision.NewKey()
	w.key = next
	w.serve(func(c *approvals.Config) { c.Replaces, c.Trust = old.Public(), []string{old.Public()} })()
	if s := signer(); s.KeyID != next.ID() || s.Replaced != old.ID() {
		t.Errorf("after the rotation the mesh's key is %+v", s)
	}
	if err := approvals.Run(w.ctx, approvals.Config{KeyFile: file}, w.Conn); fault.CodeOf(err) != fault.InvalidConfig {
		t.Errorf("the old key again: %v, want %s", err, fault.InvalidConfig)
	}
	rows, err := w.Conn.JS.Stream(w.ctx, "KV_"+crumbs.BucketApprovals)
	if err != nil {
		t.Fatal(err)
	}
	if err := rows.Purge(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.serve(nil)
	if s := signer(); s.KeyID != next.ID() {
		t.Errorf("after the bucket was lost the mesh's key is %+v", s)
	}
}
