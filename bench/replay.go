package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// handler does what a recording says for one message, whose run is given.
type handler func(ctx context.Context, js jetstream.JetStream, m jetstream.Msg, run crumbs.RunID) error

// replay is a subject that says what was recorded: no decoding, no deciding, no
// encoding; plain nats.go.
type replay struct {
	*place
	recording *recording
	stopping  []jetstream.ConsumeContext
	failed    atomic.Pointer[error]
}

// replayPull is how many messages a consumer of a replay asks for at once.
const replayPull = 256

func newReplay(ctx context.Context, dir, name string, r *recording, h handler) (*replay, error) {
	p, err := newPlace(ctx, dir, name, 0, storage{})
	if err != nil {
		return nil, err
	}
	rep := &replay{place: p, recording: r}
	var orchestrator jetstream.JetStream
	for _, c := range consumers() {
		js := orchestrator
		if js == nil || !strings.Contains(c.stream, "INBOX") { // requests and events are one process's
			conn, err := p.connect(ctx, c.consumer)
			if err != nil {
				return nil, err
			}
			js = conn.JS
		}
		if orchestrator == nil {
			orchestrator = js
		}
		if err := rep.consume(ctx, js, c.stream, c.consumer, h); err != nil {
			return nil, err
		}
	}
	return rep, nil
}

func (r *replay) consume(ctx context.Context, js jetstream.JetStream, stream, consumer string, h handler) error {
	c, err := js.Consumer(ctx, stream, consumer)
	if err != nil {
		return err
	}
	call := strings.HasSuffix(stream, "CALLS")
	handle := func(m jetstream.Msg) {
		const runOfRequest, runOfOthers = 2, 3
		run := crumbs.RunID(crumbs.Token(m.Subject(), runOfOthers))
		switch {
		case stream == crumbs.StreamRequests:
			run = crumbs.RunID(m.Headers().Get("ce-subject")[len("run/"):])
		case strings.HasPrefix(m.Subject(), "timer."):
			run = crumbs.RunID(crumbs.Token(m.Subject(), runOfRequest))
		}
		err := h(ctx, js, m, run)
		if err == nil && call {
			err = m.DoubleAck(ctx)
		} else if err == nil {
			err = m.Ack()
		}
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("%s: %w", m.Subject(), err)
			r.failed.CompareAndSwap(nil, &err)
		}
	}
	cc, err := c.Consume(func(m jetstream.Msg) { go handle(m) }, jetstream.PullMaxMessages(replayPull))
	if err == nil {
		r.stopping = append(r.stopping, cc)
	}
	return err
}

func (r *replay) stop() {
	for _, c := range r.stopping {
		c.Stop()
	}
	r.place.stop()
}

func (r *replay) run(ctx context.Context, id crumbs.RunID) error {
	m, err := request(clerk, id)
	if err != nil {
		return err
	}
	m.Header[eventID] = r.recording.request.Header[eventID] // by which the replay knows what it is
	err = r.finish(ctx, id, m)
	if failed := r.failed.Load(); failed != nil {
		err = errors.Join(err, *failed)
	}
	return err
}

func (r *replay) bytes(ctx context.Context) (int64, error) { return r.bytesOf(ctx, durable()...) }

func publish(ctx context.Context, js jetstream.JetStream, m *nats.Msg, opts ...jetstream.PublishOpt) (uint64, error) {
	ack, err := js.PublishMsg(ctx, m, append(opts, jetstream.WithRetryAttempts(0))...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", m.Subject, err)
	}
	return ack.Sequence, nil
}

// hops is the hop floor: each message is answered by the next of the run, stored,
// and acknowledged as the mesh does.
func hops(r *recording) handler {
	next := map[string]*nats.Msg{} // by ce-id of the message before
	step := func(from, to *nats.Msg) { next[from.Header.Get(eventID)+" "+head(from)] = to }
	from := r.request
	for i, c := range r.calls {
		for _, command := range r.decisions[i].commands {
			if command.Header.Get(idHeader) == c.id {
				step(from, command)
				step(command, c.result)
			}
		}
		from = c.result
	}
	last := r.decisions[len(r.decisions)-1].crumbs
	step(from, last[len(last)-1])
	return func(ctx context.Context, js jetstream.JetStream, m jetstream.Msg, run crumbs.RunID) error {
		answer := next[m.Headers().Get(eventID)+" "+verb(m.Subject())]
		if answer == nil {
			return errors.New("no next message in the recording")
		}
		_, err := publish(ctx, js, r.of(answer, run))
		return err
	}
}

// head tells a command from its result, which has the same id.
func head(m *nats.Msg) string { return verb(m.Subject) }

func verb(subject string) string { return crumbs.Token(subject, 0) + "." + crumbs.Token(subject, 1) }

// protocol is the protocol floor: the mesh's writes, reads and expectations.
type protocol struct {
	*recording
	triggers map[string]int // decision by ce-id of its message
	calls    map[string]called
	runs     sync.Map // crumbs.RunID → *progress
}

// progress is what a writer has to know of a run, one message of which is decided
// at a time: an answer may come before the crumbs of the decision that asked.
type progress struct {
	sync.Mutex
	revision, fence uint64
}

func newProtocol(r *recording) handler {
	p := &protocol{recording: r, triggers: map[string]int{r.request.Header.Get(eventID): 0}, calls: map[string]called{}}
	for i, c := range r.calls {
		p.triggers[c.result.Header.Get(eventID)] = i + 1
		p.calls[c.id] = c
	}
	return p.handle
}

func (p *protocol) handle(ctx context.Context, js jetstream.JetStream, m jetstream.Msg, run crumbs.RunID) error {
	if strings.Contains(m.Subject(), ".call.") {
		return p.call(ctx, js, p.calls[m.Headers().Get(eventID)], run)
	}
	i, ok := p.triggers[m.Headers().Get(eventID)]
	if !ok {
		return errors.New("no decision in the recording")
	}
	return p.decide(ctx, js, i, run)
}

func (p *protocol) decide(ctx context.Context, js jetstream.JetStream, i int, run crumbs.RunID) error {
	d := p.decisions[i]
	known, _ := p.runs.LoadOrStore(run, &progress{})
	at := known.(*progress)
	at.Lock()
	defer at.Unlock()
	for _, r := range d.reads {
		s, err := js.Stream(ctx, r.stream)
		if err != nil {
			return err
		}
		if _, err := s.GetLastMsgForSubject(ctx, p.rename(r.subject, run)); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return err
		}
	}
	var err error
	if at.revision, err = publish(ctx, js, p.of(d.record, run), jetstream.WithExpectLastSequencePerSubject(at.revision)); err != nil {
		return err
	}
	if err := p.send(ctx, js, d.commands, run); err != nil {
		return err
	}
	filter := crumbs.CrumbFilter(clerk, run)
	for _, c := range d.crumbs {
		if at.fence, err = publish(ctx, js, p.of(c, run), jetstream.WithExpectLastSequenceForSubject(at.fence, filter)); err != nil {
			return err
		}
	}
	if d.final == nil {
		return nil
	}
	p.runs.Delete(run)
	_, err = publish(ctx, js, p.of(d.final, run), jetstream.WithExpectLastSequencePerSubject(at.revision))
	return err
}

// send publishes commands at the same time.
func (p *protocol) send(ctx context.Context, js jetstream.JetStream, commands []*nats.Msg, run crumbs.RunID) error {
	if len(commands) == 0 {
		return nil
	}
	var all errgroup.Group
	for _, c := range commands[1:] {
		all.Go(func() error {
			_, err := publish(ctx, js, p.of(c, run))
			return err
		})
	}
	_, err := publish(ctx, js, p.of(commands[0], run))
	return errors.Join(err, all.Wait())
}

func (p *protocol) call(ctx context.Context, js jetstream.JetStream, c called, run crumbs.RunID) error {
	if c.claim == nil {
		return errors.New("no call in the recording")
	}
	if _, err := publish(ctx, js, p.of(c.claim, run), jetstream.WithExpectLastSequencePerSubject(0)); err != nil {
		return err
	}
	acks := make([]jetstream.PubAckFuture, 0, len(c.deltas))
	for _, d := range c.deltas {
		ack, err := js.PublishMsgAsync(p.of(d, run), jetstream.WithRetryAttempts(0))
		if err != nil {
			return err
		}
		acks = append(acks, ack)
	}
	for _, a := range acks {
		select {
		case <-a.Ok():
		case err := <-a.Err():
			return err
		}
	}
	_, err := publish(ctx, js, p.of(c.result, run), jetstream.WithExpectLastSequencePerSubject(0))
	return err
}
