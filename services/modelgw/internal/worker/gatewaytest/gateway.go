// Package gatewaytest plays the orchestrator for tests of the model gateway: it
// sends calls and reads results and deltas, over a real nats-server, and checks
// every body against its schema.
package gatewaytest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// Provider is the instance whose queue a Bench has.
const Provider = "script"

const resultWait = 20 * time.Second

// Bench is a mesh with the queue of Provider.
type Bench struct {
	*meshtest.Mesh
	t testing.TB
}

// Start starts a mesh that ends with the test.
func Start(t testing.TB) *Bench {
	t.Helper()
	return &Bench{Mesh: meshtest.Start(t, meshtest.WithTopology(nil, []string{Provider})), t: t}
}

// Call returns a valid call of a run.
func Call(run crumbs.RunID) crumbs.ModelCall {
	now := time.Now()
	return crumbs.ModelCall{
		Type: crumbs.TypeModelCall, RunID: run, AgentID: "publisher", SessionID: "ses_1", AgentRevision: "rev_0123456789abcdef",
		CallID: crumbs.ModelCallID(run, 1), Step: 1, Attempt: 1, N: 1, Model: crumbs.Model{Provider: Provider, Model: "main"},
		Messages: []crumbs.Message{User(`{"path":"README.md"}`)}, ToolSet: "0123456789abcdef", Deltas: true, AfterSeq: 2,
		StartBefore: crumbs.At(now.Add(10 * time.Minute)), DeadlineAt: crumbs.At(now.Add(20 * time.Minute)),
	}
}

// User returns a message of the user.
func User(text string) crumbs.Message {
	return crumbs.Message{Role: crumbs.RoleUser, Parts: []crumbs.Part{{Type: crumbs.PartText, Text: text}}}
}

// Message returns the message of a call, put aside when it is large.
func (b *Bench) Message(call crumbs.ModelCall) *nats.Msg {
	b.t.Helper()
	return b.message(Provider, call)
}

func (b *Bench) message(queue string, call crumbs.ModelCall) *nats.Msg {
	b.t.Helper()
	body := b.marshal(call)
	short, object, err := b.Conn.Blobs(crumbs.AreaCore).CheckIn(context.Background(), call.RunID, body, mesh.BaseFields()...)
	b.check(err)
	msg, err := crumbs.Event{
		ID: call.CallID.Attempt(call.Attempt), Source: crumbs.Source("orchestrator"), Type: crumbs.CEType(crumbs.TypeModelCall),
		Subject: "run/" + string(call.RunID), Time: time.Now(), RunID: call.RunID, AgentID: call.AgentID, SessionID: call.SessionID,
		TraceParent: Origin, DataRef: object, Data: short,
	}.Message(crumbs.ModelCallSubject(queue, call.RunID))
	b.check(err)
	return msg
}

// Origin is the traceparent of the runs of a Bench.
const Origin = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// Send stores a call and returns its stream sequence.
func (b *Bench) Send(call crumbs.ModelCall) uint64 {
	b.t.Helper()
	return b.Publish(b.Message(call))
}

// SendTo is Send on the queue of another provider instance.
func (b *Bench) SendTo(queue string, call crumbs.ModelCall) uint64 {
	b.t.Helper()
	return b.Publish(b.message(queue, call))
}

// Publish stores any message and returns its stream sequence.
func (b *Bench) Publish(msg *nats.Msg) uint64 {
	b.t.Helper()
	ack, err := b.Conn.Publish(context.Background(), msg)
	b.check(err)
	return ack.Sequence
}

// Cancel publishes ctl.cancel for the named calls of a run, all when none is.
func (b *Bench) Cancel(run crumbs.RunID, calls ...crumbs.CallID) {
	b.t.Helper()
	body := b.marshal(crumbs.CtlCancel{Type: crumbs.TypeCtlCancel, RunID: run, CallIDs: calls})
	b.check(b.Conn.NATS.Publish(crumbs.CancelSubject(run), body))
	b.check(b.Conn.NATS.FlushTimeout(resultWait))
}

// Answer is a result with its envelope.
type Answer struct {
	crumbs.ModelResult
	Event  crumbs.Event
	Header nats.Header
}

// Result takes the next result from INBOX, whole.
func (b *Bench) Result() Answer {
	b.t.Helper()
	return b.ResultOf(Provider)
}

// ResultOf is Result of another provider instance.
func (b *Bench) ResultOf(queue string) Answer {
	b.t.Helper()
	ctx := context.Background()
	cons, err := b.Conn.JS.Consumer(ctx, crumbs.StreamInbox, mesh.ConsumerEvents)
	b.check(err)
	m, err := cons.Next(jetstream.FetchMaxWait(resultWait))
	if err != nil {
		b.t.Fatalf("no result: %v", err)
	}
	b.check(m.DoubleAck(ctx))
	a := Answer{Header: m.Headers()}
	a.Event, err = crumbs.ReadEvent(m.Headers(), m.Data())
	b.check(err)
	body, err := b.Conn.Blobs(crumbs.AreaModel(queue)).CheckOut(ctx, a.Event.Data)
	b.check(err)
	b.check(crumbs.Decode(crumbs.TypeModelResult, body, &a.ModelResult))
	if want := crumbs.ModelResultSubject(queue, a.CallID, a.Attempt); m.Subject() != want {
		b.t.Fatalf("result on %s, want %s", m.Subject(), want)
	}
	return a
}

// Waiting returns how many messages a stream holds.
func (b *Bench) Waiting(stream string) uint64 {
	b.t.Helper()
	s, err := b.Conn.JS.Stream(context.Background(), stream)
	b.check(err)
	return s.CachedInfo().State.Msgs
}

// Delta is any delta.
type Delta struct {
	crumbs.DeltaBase
	ToolCallID crumbs.CallID `json:"toolCallId"`
	ToolName   string        `json:"toolName"`
	Delta      string        `json:"delta"`

	Stored  time.Time `json:"-"`
	EventID string    `json:"-"`
}

// String renders a delta in one line.
func (d Delta) String() string {
	return fmt.Sprintf("%d %s %s%s%s", d.Index, d.Type, d.ToolCallID, d.ToolName, d.Delta)
}

// Deltas returns what is stored on DELTAS, in order.
func (b *Bench) Deltas() []Delta {
	b.t.Helper()
	ctx := context.Background()
	s, err := b.Conn.JS.Stream(ctx, crumbs.StreamDeltas)
	b.check(err)
	var all []Delta
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(ctx, seq)
		b.check(err)
		event, err := crumbs.ReadEvent(m.Header, m.Data)
		b.check(err)
		var d Delta
		b.check(json.Unmarshal(event.Data, &d))
		b.check(crumbs.Decode(d.Type, event.Data, &d))
		if want := crumbs.ModelDeltaSubject(d.AgentID, d.RunID, d.Type); m.Subject != want || event.Type != crumbs.CEType(d.Type) {
			b.t.Fatalf("%s with type %s, want %s", m.Subject, event.Type, want)
		}
		d.Stored, d.EventID = m.Time, event.ID
		all = append(all, d)
	}
	return all
}

func (b *Bench) marshal(v any) json.RawMessage {
	b.t.Helper()
	body, err := json.Marshal(v)
	b.check(err)
	return body
}

func (b *Bench) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}
