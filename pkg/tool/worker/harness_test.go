package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

const (
	group = "research"
	run   = crumbs.RunID("run_1")
)

// lab is a mesh in a bubble of virtual time, with the orchestrator's side of
// tool calls played by the test.
type lab struct {
	*meshtest.Mesh
	t       *testing.T
	results chan crumbs.ToolResult
	stops   []func()
}

// inLab runs f in a bubble; workers it started are stopped at its end.
func inLab(t *testing.T, f func(t *testing.T, l *lab), opts ...meshtest.Option) {
	t.Helper()
	meshtest.Virtual(t, func(t *testing.T) {
		m := meshtest.Start(t, append([]meshtest.Option{meshtest.WithSettings(inMemory)}, append(opts, meshtest.WithTopology([]string{group}, nil))...)...)
		l := &lab{Mesh: m, t: t, results: make(chan crumbs.ToolResult, 64)}
		defer func() {
			for _, stop := range l.stops {
				stop()
			}
			m.Conn.Close()
			m.Server.Stop()
		}()
		l.readResults()
		f(t, l)
	})
}

// readResults takes results off INBOX as the orchestrator would.
func (l *lab) readResults() {
	l.t.Helper()
	loop, err := l.Conn.NewLoop(l.t.Context(), mesh.ConsumeConfig{Stream: crumbs.StreamInbox, Consumer: mesh.ConsumerEvents, Capacity: 8},
		func(ctx context.Context, d *mesh.Delivery) error {
			body, err := l.Conn.Blobs(crumbs.AreaTool(group)).CheckOut(ctx, d.Data)
			if err != nil {
				return err
			}
			var r crumbs.ToolResult
			if err := json.Unmarshal(body, &r); err != nil {
				return err
			}
			if d.Subject != crumbs.ToolResultSubject(group, r.CallID, r.Attempt) {
				l.t.Errorf("result of %s on %s", r.CallID, d.Subject)
			}
			l.results <- r
			return nil
		})
	if err != nil {
		l.t.Fatal(err)
	}
	l.background(loop.Run)
}

// background runs f until the lab ends, or until stop is called.
func (l *lab) background(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			l.t.Error(err)
		}
	}
	l.stops = append(l.stops, stop)
	return stop
}

// serve starts a worker on a connection of its own.
func (l *lab) serve(cfg worker.Config, tools ...tool.Tool) (conn *mesh.Conn, stop func()) {
	l.t.Helper()
	cfg.Group = group
	if cfg.Verify == nil {
		cfg.Verify = verify
	}
	conn = l.Connect("worker")
	w, err := worker.New(l.t.Context(), cfg, conn, tools...)
	if err != nil {
		l.t.Fatal(err)
	}
	return conn, l.background(w.Run)
}

func verify(d crumbs.Decision) error {
	if d.Signature != "good" {
		return fault.New(fault.DecisionInvalid, "the signature is wrong")
	}
	return nil
}

// call is a call of t as the orchestrator makes it.
func call(t *testing.T, tl tool.Tool, args string, change ...func(*crumbs.ToolCall)) crumbs.ToolCall {
	t.Helper()
	hash, err := argument.Hash(json.RawMessage(args))
	if err != nil {
		t.Fatal(err)
	}
	c := crumbs.ToolCall{
		Type: crumbs.TypeToolCall, Kind: crumbs.KindTool, RunID: run, AgentID: "agent", SessionID: "ses_1", Step: 1,
		CallID: crumbs.ToolCallID(run, 1, 0), Attempt: 1, Tool: "tool:" + tl.Name(), ToolName: "tool_" + tl.Name(), Handler: tl.Name(),
		ToolHash: tl.Announcement(group).Hash(), Group: group, Effect: tl.Effect(), Args: json.RawMessage(args), ArgsHash: hash, AfterSeq: 5,
		StartBefore: crumbs.At(time.Now().Add(10 * time.Minute)), DeadlineAt: crumbs.At(time.Now().Add(20 * time.Minute)),
		TimeoutMs: time.Hour.Milliseconds(), Permission: crumbs.Permission{Verdict: crumbs.VerdictAllow},
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// send puts a call into the queue and returns its sequence.
func (l *lab) send(c crumbs.ToolCall) uint64 {
	l.t.Helper()
	body, err := json.Marshal(c)
	if err != nil {
		l.t.Fatal(err)
	}
	msg, err := crumbs.Event{
		ID: c.CallID.Attempt(c.Attempt), Source: crumbs.Source("orchestrator"), Type: crumbs.CEType(crumbs.TypeToolCall), Subject: "run/" + string(c.RunID),
		Time: time.Now(), RunID: c.RunID, AgentID: c.AgentID, SessionID: c.SessionID, Data: body,
	}.Message(crumbs.ToolCallSubject(group, c.RunID))
	if err != nil {
		l.t.Fatal(err)
	}
	return l.publish(msg)
}

func (l *lab) publish(msg *nats.Msg) uint64 {
	l.t.Helper()
	ack, err := l.Conn.Publish(l.t.Context(), msg)
	if err != nil {
		l.t.Fatal(err)
	}
	return ack.Sequence
}

// result waits for the next one; in virtual time waiting is free.
func (l *lab) result() crumbs.ToolResult {
	l.t.Helper()
	select {
	case r := <-l.results:
		return r
	case <-time.After(30 * time.Minute):
		l.t.Fatal("no result came")
	}
	return crumbs.ToolResult{}
}

// quiet waits d and reports a result that comes meanwhile.
func (l *lab) quiet(d time.Duration) {
	l.t.Helper()
	select {
	case r := <-l.results:
		l.t.Errorf("a result came: %+v", r)
	case <-time.After(d):
	}
}

// wait lets virtual time pass.
func wait(d time.Duration) { <-time.After(d) }

func (l *lab) claim(c crumbs.ToolCall) mesh.Claim {
	l.t.Helper()
	claim, err := l.Conn.Claims().Get(l.t.Context(), crumbs.ToolClaim(group, c.CallID, c.Attempt))
	if err != nil {
		l.t.Fatal(err)
	}
	return claim
}

// setClaim writes what another process would have left.
func (l *lab) setClaim(c crumbs.ToolCall, claim mesh.Claim) {
	l.t.Helper()
	claim.At = crumbs.At(time.Now())
	body, err := json.Marshal(claim)
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := l.Conn.Bucket(crumbs.BucketClaims).Put(l.t.Context(), crumbs.ToolClaim(group, c.CallID, c.Attempt), body); err != nil {
		l.t.Fatal(err)
	}
}

// present keeps a worker that is none in bucket workers for as long as the lab.
func (l *lab) present(name string) (leave func()) {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	gone, err := l.Conn.Announce(ctx, mesh.Presence{Worker: name, Service: mesh.ServiceTools, Queue: group})
	if err != nil {
		l.t.Fatal(err)
	}
	left := false
	leave = func() {
		if !left {
			left = true
			cancel()
			<-gone
		}
	}
	l.stops = append(l.stops, leave)
	return leave
}

// messages is how many messages a stream holds on a subject.
func (l *lab) messages(stream, subject string) uint64 {
	l.t.Helper()
	s, err := l.Conn.JS.Stream(l.t.Context(), stream)
	if err != nil {
		l.t.Fatal(err)
	}
	info, err := s.Info(l.t.Context(), jetstream.WithSubjectFilter(subject))
	if err != nil {
		l.t.Fatal(err)
	}
	var n uint64
	for _, c := range info.State.Subjects {
		n += c
	}
	return n
}

// settled reports an error unless the queue is empty.
func (l *lab) settled() {
	l.t.Helper()
	left := l.messages(crumbs.StreamToolCalls, ">")
	for range settleTries { // a result comes before its message is settled
		if left == 0 {
			return
		}
		<-time.After(settlePause)
		left = l.messages(crumbs.StreamToolCalls, ">")
	}
	l.t.Errorf("%d messages left in the queue", left)
}

// How long a message may take to be settled once its result is there, in the
// bubble's time.
const (
	settleTries = 20
	settlePause = 100 * time.Millisecond
)

func wantStatus(t *testing.T, r crumbs.ToolResult, status string, code fault.Code) {
	t.Helper()
	var got fault.Code
	if r.Error != nil {
		got = r.Error.Code
	}
	if r.Status != status || got != code {
		t.Errorf("got status %s, error %v, want %s, %q", r.Status, r.Error, status, code)
	}
}

// after waits in virtual time, or until the call is interrupted.
func after(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errKilled = errors.New("killed")

// inMemory keeps the streams off the disk: a lab never restarts its server.
func inMemory(s *mesh.Settings) {
	const size = 16 << 20
	s.Storage = jetstream.MemoryStorage
	s.RequestsBytes, s.InboxBytes, s.CallsBytes, s.CrumbsBytes, s.DeltasBytes, s.DeadBytes = size, size, size, size, size, size
}
