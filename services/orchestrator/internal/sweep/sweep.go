// Package sweep finds messages of the work queues MODELCALLS and TOOLCALLS that
// nobody will ever be handed again, moves them to the dead letters and tells their
// runs, which would otherwise wait for the deadline of the call.
//
// Three things leave such messages: deliveries that are used up (the message stays
// stored, invisible to its consumer), a queue whose consumer was deleted, and a subject
// that no consumer ever took (a stray: somebody published by mistake, or a group was
// removed while no orchestrator lived). The server says the first once, to who listens;
// whoever does not hear it finds the message by looking. REQUESTS, INBOX and TIMERS have
// one consumer each that takes everything: nothing strays there. Any number of replicas may look: a message is kept once, a run
// is told once, and to remove twice is to remove.
//
// What waits in a queue that lives, and whose run waits for it no more, is removed:
// nobody counts it as work that a worker is missing for.
//
// It also hears of every dead letter: a worker that gives a call up because nobody
// can read it tells no run.
package sweep

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// Bounds of the work and times of a sweep.
const (
	DefaultEvery = 30 * time.Second
	confirmAfter = 10 * time.Second // a message is looked at twice: an ack may be on its way
	queueGrace   = time.Minute      // a queue may be made anew
	perQueueMax  = 256              // messages of a queue that one pass moves, and looks at for settled calls
	queuesMax    = 4096             // queues that are remembered
	straysMax    = 256              // places of strays that are remembered of a stream
	straysEvery  = 10               // passes after which strays are looked for whatever the numbers say
	tellMax      = 5 * time.Second  // for one run to be told
	lettersBack  = 1000             // dead letters that a new process looks back over
)

// Names tells which queues there should be, whatever consumers there are.
type Names interface {
	// Queues returns the filters of the groups and providers that the project and the
	// announcements name, by stream.
	Queues(ctx context.Context) (map[string][]string, error)
	// Definition and ToolSet read what a run is pinned to.
	Definition(ctx context.Context, id crumbs.AgentID, revision string) (*agent.Definition, error)
	ToolSet(ctx context.Context, hash string) (*agent.ToolSet, error)
}

// Sweeper looks through the work queues.
type Sweeper struct {
	conn  *mesh.Conn
	names Names
	every time.Duration

	mu     sync.Mutex
	stuck  map[place]time.Time // messages below the floor, since
	absent map[queue]time.Time // queues without a consumer, since; zero: there is one
	letter uint64              // the last dead letter that was looked at; 0: none yet

	strays map[queue]time.Time // places that no consumer takes and nobody names, since
	passes int

	further map[queue]uint64 // where the next look for settled calls goes on
}

type place struct {
	stream   string
	sequence uint64
}

type queue struct{ stream, filter string }

// New returns a sweeper that looks every DefaultEvery when every is 0.
func New(conn *mesh.Conn, names Names, every time.Duration) *Sweeper {
	if every <= 0 {
		every = DefaultEvery
	}
	return &Sweeper{conn: conn, names: names, every: every, stuck: map[place]time.Time{}, absent: map[queue]time.Time{}, strays: map[queue]time.Time{}, further: map[queue]uint64{}}
}

// streams are the work queues of workers; the orchestrator's own have no bound on
// deliveries.
func streams() []string { return []string{crumbs.StreamModelCalls, crumbs.StreamToolCalls} }

// Run sweeps until ctx ends.
func (s *Sweeper) Run(ctx context.Context) error {
	for _, stream := range streams() {
		stop, err := s.conn.OnUsedUp(ctx, stream, func(sequence uint64, deliveries int) { s.usedUp(ctx, stream, sequence, deliveries) })
		if err != nil {
			return unlessStopped(ctx, err)
		}
		defer stop()
	}
	stop, err := s.conn.OnDead(ctx, func(subject string) {
		if err := s.givenUp(ctx, subject); err != nil && ctx.Err() == nil {
			s.conn.Log.Warn("sweep", "letter", subject, "error", err)
		}
	})
	if err != nil {
		return unlessStopped(ctx, err)
	}
	defer stop()
	t := time.NewTicker(s.every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		if err := s.Pass(ctx); err != nil && ctx.Err() == nil {
			s.conn.Log.Warn("sweep", "error", err)
		}
	}
}

// unlessStopped: who is told to stop while it begins has not failed.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// usedUp moves the one message that the server speaks of.
func (s *Sweeper) usedUp(ctx context.Context, stream string, sequence uint64, deliveries int) {
	m, err := s.conn.Message(ctx, stream, sequence)
	if err == nil && m != nil {
		err = s.move(ctx, stuck{stream: stream, m: m, why: fmt.Sprintf("it was handed out %d times", deliveries), deliveries: deliveries})
	}
	if err != nil && ctx.Err() == nil {
		s.conn.Log.Warn("sweep", "stream", stream, "sequence", sequence, "error", err)
	}
}

// Pass looks once through all queues.
func (s *Sweeper) Pass(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	named, err := s.names.Queues(ctx)
	if err != nil {
		return err
	}
	seen := map[place]time.Time{}
	for _, stream := range streams() {
		queues, err := s.conn.Queues(ctx, stream)
		if err != nil {
			return err
		}
		for _, q := range s.all(stream, queues, named[stream]) {
			if err := s.look(ctx, stream, q, seen); err != nil {
				return err
			}
			if err := s.settled(ctx, stream, q); err != nil {
				return err
			}
		}
		if err := s.astray(ctx, stream, queues); err != nil {
			return err
		}
	}
	s.stuck = seen
	s.passes++
	return s.letters(ctx)
}

// all adds to the queues of a stream those whose consumer is gone for longer than
// queueGrace: of them everything is stuck.
func (s *Sweeper) all(stream string, queues []mesh.Queue, named []string) []mesh.Queue {
	if len(s.absent) > queuesMax {
		clear(s.absent)
		clear(s.further)
	}
	present := map[string]bool{}
	for _, q := range queues {
		if !mesh.IsQueue(q.Filter) {
			continue // none of ours: what it leaves is astray
		}
		present[q.Filter] = true
		s.absent[queue{stream, q.Filter}] = time.Time{}
	}
	for _, filter := range named {
		if _, known := s.absent[queue{stream, filter}]; !known {
			s.absent[queue{stream, filter}] = time.Time{}
		}
	}
	now := time.Now()
	for q, since := range s.absent {
		switch {
		case q.stream != stream || present[q.filter]:
		case since.IsZero():
			s.absent[q] = now
		case now.Sub(since) >= queueGrace:
			queues = append(queues, mesh.Queue{Filter: q.filter, Floor: mesh.Everything})
		}
	}
	return queues
}

// look moves what lies below the floor of a queue, perQueueMax messages at most.
func (s *Sweeper) look(ctx context.Context, stream string, q mesh.Queue, seen map[place]time.Time) error {
	from := uint64(1)
	for range perQueueMax {
		m, err := s.conn.Next(ctx, stream, q.Filter, from)
		if err != nil || m == nil || m.Sequence > q.Floor {
			return err
		}
		from = m.Sequence + 1
		why := fmt.Sprintf("group or provider %q has no queue", crumbs.Token(q.Filter, 2))
		if q.Floor == mesh.Everything {
			if made, err := s.made(ctx, stream, q.Filter); err != nil || made {
				return err
			}
		} else {
			at := place{stream, m.Sequence}
			since, known := s.stuck[at]
			if !known {
				since = time.Now()
			}
			seen[at] = since
			if time.Since(since) < confirmAfter {
				continue
			}
			why = fmt.Sprintf("it was handed out %d times", s.conn.Settings.WorkerMaxDeliver)
		}
		if err := s.move(ctx, stuck{stream: stream, m: m, why: why}); err != nil {
			return err
		}
	}
	return nil
}

// stuck is a message that nobody will be handed.
type stuck struct {
	stream     string
	m          *mesh.Stored
	why        string
	deliveries int
	stray      bool // on a queue that nobody names: what it says of a run is nobody's word
}

// move keeps a message as a dead letter, tells its run and removes it, in this
// order: a crash in between repeats, and loses nothing. What its holder still works
// on stays; of what its run waits for no more nothing is kept, unless no run of that
// name is known on a queue that is not either.
func (s *Sweeper) move(ctx context.Context, u stuck) error {
	m, stream := u.m, u.stream
	run := crumbs.RunID(crumbs.Token(m.Subject, 3))
	call, attempt := callOf(m)
	of := callOn{subject: m.Subject, trusted: !u.stray, call: call, attempt: attempt}
	lost := fault.New(fault.ToolLost, "no worker will take the call: %s", u.why)
	if stream == crumbs.StreamModelCalls {
		lost = fault.New(fault.ModelError, "no model gateway will take the call: %s", u.why)
	}
	waits := false
	if call != "" && call.Run() == run {
		st, err := s.stands(ctx, of)
		switch {
		case err != nil, st.held, u.stray && st.unread:
			return err
		case !st.waits && (!u.stray || st.recorded && !st.flies):
			return s.conn.Remove(ctx, stream, m.Sequence)
		}
		waits = st.waits
	}
	d := &mesh.Delivery{Subject: m.Subject, Header: m.Header, Data: m.Data, Stored: m.Time, Sequence: m.Sequence, Count: u.deliveries}
	letter, err := s.conn.DeadLetter(ctx, stream, run, d, lost)
	if err != nil {
		return err
	}
	s.conn.Log.Warn("call nobody takes", "stream", stream, "run", run, "call", call, "attempt", attempt, "letter", letter, "error", lost)
	if waits {
		if err := s.tell(ctx, of, lost.With("deadLetter", letter)); err != nil {
			return err
		}
	}
	return s.conn.Remove(ctx, stream, m.Sequence)
}

// callOf is the attempt a message is about, "" when it does not say.
func callOf(m *mesh.Stored) (crumbs.CallID, int) {
	if call, attempt := crumbs.ParseAttempt(m.Header.Get("ce-id")); call != "" {
		return call, attempt
	}
	var body struct {
		CallID  crumbs.CallID `json:"callId"`
		Attempt int           `json:"attempt"`
	}
	if json.Unmarshal(m.Data, &body) != nil || crumbs.CheckCallID(body.CallID) != nil || body.Attempt < 1 {
		return "", 0
	}
	return body.CallID, body.Attempt
}
