package worker

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/turn"
)

// Bounds of deltas.
const (
	deltasInFlight = 32              // acks of one call that may be outstanding
	acksMax        = 64_000          // of all calls together
	deltaAckWait   = 5 * time.Second // a delta without an ack by then counts as lost
	pieceBytesMax  = 64 << 10        // of one delta; JSON may write a byte as six
)

// newLive returns a publisher of deltas. It is one of its own because its acks
// have a time limit: without one a delta that NATS refuses silently (a forbidden
// subject) would hold its place for ever.
func newLive(conn *mesh.Conn) (jetstream.JetStream, error) {
	return conn.NewJetStream(jetstream.WithPublishAsyncTimeout(deltaAckWait), jetstream.WithPublishAsyncMaxPending(acksMax))
}

// deltas sends what a call streams. Deltas are live only: one that cannot be
// stored is logged, not repeated, and the whole text comes in the result.
type deltas struct {
	worker  *Worker
	job     *job
	veil    *veil
	count   int // sent so far, which is the next index
	pending []jetstream.PubAckFuture
	lost    int
}

func (w *Worker) newDeltas(j *job) *deltas {
	return &deltas{worker: w, job: j, veil: newVeil(w.conn.Secrets.Masker())}
}

// send publishes an event without awaiting its ack, in pieces of bounded size.
func (s *deltas) send(e turn.Event) {
	if !s.job.call.Deltas {
		return
	}
	for _, e := range s.veil.pass(e) {
		s.emit(e)
	}
}

func (s *deltas) emit(e turn.Event) {
	switch e.Kind {
	case turn.Text, turn.Reasoning, turn.InputDelta:
		for piece := range pieces(e.Piece) {
			s.publish(s.body(e, piece))
		}
	case turn.InputStart:
		if e.Name != "" {
			s.publish(s.body(e, ""))
		}
	case turn.InputEnd:
		s.publish(s.body(e, ""))
	}
}

// body returns the crumb of an event.
func (s *deltas) body(e turn.Event, piece string) (typ string, body any) {
	c := s.job.call
	base := crumbs.DeltaBase{Base: crumbs.Base{
		RunID: c.RunID, AgentID: c.AgentID, SessionID: c.SessionID, Seq: c.AfterSeq, Timestamp: time.Now().UnixMilli(), Step: c.Step,
	}, Attempt: c.Attempt, Index: s.count}
	switch e.Kind {
	case turn.Text, turn.Reasoning:
		base.Type = crumbs.TypeTextDelta
		if e.Kind == turn.Reasoning {
			base.Type = crumbs.TypeReasoningDelta
		}
		return base.Type, crumbs.TextDelta{DeltaBase: base, Delta: piece}
	case turn.InputStart:
		base.Type = crumbs.TypeInputStart
	case turn.InputDelta:
		base.Type = crumbs.TypeInputDelta
	default:
		base.Type = crumbs.TypeInputEnd
	}
	return base.Type, crumbs.InputDelta{DeltaBase: base, ToolCallID: crumbs.ToolCallID(c.RunID, c.Step, e.Call), ToolName: e.Name, Delta: piece}
}

func (s *deltas) publish(typ string, body any) {
	index := s.count
	s.count++
	data, err := json.Marshal(body)
	if err != nil {
		s.lose(err)
		return
	}
	c := s.job.call
	event := crumbs.Event{
		ID: fmt.Sprintf("%s/%d", s.job.key(), index), Source: crumbs.Source(serviceName), Type: crumbs.CEType(typ),
		Subject: "run/" + string(c.RunID), Time: time.Now(), RunID: c.RunID, AgentID: c.AgentID, SessionID: c.SessionID,
		Sequence: c.AfterSeq, TraceParent: s.job.event.TraceParent, TraceState: s.job.event.TraceState, Data: data,
	}
	msg, err := event.Message(crumbs.ModelDeltaSubject(c.AgentID, c.RunID, typ))
	if err != nil {
		s.lose(err)
		return
	}
	future, err := s.worker.live.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0)) // the client's own retries would change the order
	if err != nil {
		s.lose(err)
		return
	}
	if s.pending = append(s.pending, future); len(s.pending) > deltasInFlight {
		s.await(s.pending[0], time.After(deltaAckWait))
		s.pending = s.pending[1:]
	}
}

// flush sends what was held back and awaits the acks of all deltas, so that none
// comes after the result.
func (s *deltas) flush() {
	for _, e := range s.veil.rest() {
		s.emit(e)
	}
	late := time.After(deltaAckWait)
	for _, f := range s.pending {
		s.await(f, late)
	}
	s.pending = nil
	if s.lost > 0 {
		s.worker.conn.Log.Warn("deltas were lost", "run", s.job.call.RunID, "call", s.job.call.CallID, "lost", s.lost, "of", s.count)
	}
}

func (s *deltas) await(f jetstream.PubAckFuture, late <-chan time.Time) {
	select {
	case <-f.Ok():
	case err := <-f.Err():
		s.lose(err)
	case <-late:
		s.lose(fault.New(fault.Unavailable, "no ack within %s", deltaAckWait))
	}
}

func (s *deltas) lose(err error) {
	s.lost++
	s.worker.conn.Log.Debug("delta", "run", s.job.call.RunID, "call", s.job.call.CallID, "error", err)
}

// pieces cuts a text into at most pieceBytesMax bytes each, between characters.
func pieces(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for text != "" {
			n := min(len(text), pieceBytesMax)
			for n < len(text) && n > pieceBytesMax-utf8.UTFMax && !utf8.RuneStart(text[n]) {
				n--
			}
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}
