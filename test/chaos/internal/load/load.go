package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/test/chaos/internal/check"
	"github.com/crumbmesh/crumbmesh/test/chaos/internal/raw"
)

const endpointDecide = "crumbmesh.approvals.decide"

// InFlightMax is how many runs are under way at once.
const InFlightMax = 64

// Config of a load.
type Config struct {
	Seed   uint64
	Prefix string // of run ids
	Runs   int
	Over   time.Duration // the last run is started then
	NATS   *nats.Conn
	JS     jetstream.JetStream
}

// Load is runs under way.
type Load struct {
	cfg    Config
	orders map[string]order
	slots  chan struct{}

	mu       sync.Mutex
	accepted map[string]bool
	ended    map[string]bool
	freed    map[string]bool      // gave its slot back
	answers  map[string]time.Time // by checkpoint: first answer sent
	refused  []string             // what was refused that should not have been
	moved    chan struct{}        // closed and replaced with each end
	busy     sync.WaitGroup       // answers and cancels under way
}

// New returns a load that has not begun.
func New(cfg Config) *Load {
	return &Load{cfg: cfg, orders: map[string]order{}, slots: make(chan struct{}, InFlightMax),
		accepted: map[string]bool{}, ended: map[string]bool{}, freed: map[string]bool{}, answers: map[string]time.Time{}, moved: make(chan struct{})}
}

// Run starts all runs, evenly over the time of the load and never more than
// InFlightMax at once, and returns when the last is accepted and answered for. It
// fails when ctx ends before.
func (l *Load) Run(ctx context.Context) error {
	all := orders(l.cfg.Seed, l.cfg.Prefix, l.cfg.Runs)
	for _, o := range all {
		l.orders[o.run] = o
	}
	go raw.Follow(ctx, l.cfg.JS, "CRUMBS", func(m check.Message) { l.hear(ctx, m) })
	begin := time.Now()
	var starting sync.WaitGroup
	for i, o := range all {
		due := begin.Add(l.cfg.Over * time.Duration(i) / time.Duration(len(all)))
		if !l.slot(ctx, time.Until(due)) {
			break
		}
		starting.Go(func() { l.start(ctx, o) })
	}
	starting.Wait()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%d of %d runs were accepted: %w", len(l.accepted), len(all), err)
	}
	return nil
}

// slot waits until a run is due and may begin.
func (l *Load) slot(ctx context.Context, wait time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(max(wait, 0)):
	}
	select {
	case <-ctx.Done():
		return false
	case l.slots <- struct{}{}:
		return true
	}
}

// start asks for a run until it is accepted, and cancels it if that was drawn.
func (l *Load) start(ctx context.Context, o order) {
	body := map[string]any{"type": "run.request", "runId": o.run, "agentId": o.agent, "input": o.input}
	var err error
	if o.endpoint {
		err = request(ctx, l.cfg.NATS, "crumbmesh.runs.start", body)
	} else {
		err = publish(ctx, l.cfg.JS, "run.request."+o.agent, body)
	}
	if err != nil {
		l.refuse("start of "+o.run, err)
		return
	}
	l.mu.Lock()
	l.accepted[o.run] = true
	l.mu.Unlock()
	if o.cancel == 0 {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(o.cancel):
	}
	control := map[string]any{"type": "run.control", "runId": o.run, "controlId": "cancel_" + o.run, "action": "cancel", "reason": "the client said so"}
	if err := publish(ctx, l.cfg.JS, "run.control."+o.run, control); err != nil {
		l.refuse("cancel of "+o.run, err)
	}
}

// refuse keeps what nobody should have refused.
func (l *Load) refuse(what string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = append(l.refused, what+": "+err.Error())
}

// hear follows the crumbs: ends free a slot, questions are answered.
func (l *Load) hear(ctx context.Context, m check.Message) {
	var c struct {
		Type         string          `json:"type"`
		RunID        string          `json:"runId"`
		CheckpointID string          `json:"checkpointId"`
		ArgsHash     string          `json:"argsHash"`
		Args         json.RawMessage `json:"args"`
	}
	if err := json.Unmarshal(m.Body, &c); err != nil {
		return // the check will say so
	}
	switch c.Type {
	case "agent:run:end", "agent:error":
		l.end(c.RunID)
	case "human:required":
		l.busy.Go(func() { l.answer(ctx, l.orders[c.RunID], c.CheckpointID, c.ArgsHash) })
	}
}

func (l *Load) end(run string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended[run] = true
	if _, mine := l.orders[run]; mine && !l.freed[run] {
		l.freed[run] = true
		<-l.slots
	}
	close(l.moved)
	l.moved = make(chan struct{})
}

// answer says what was drawn, then the opposite as somebody else: the first wins.
func (l *Load) answer(ctx context.Context, o order, checkpoint, hash string) {
	l.mu.Lock()
	l.answers[checkpoint] = time.Now()
	l.mu.Unlock()
	body := map[string]any{"checkpointId": checkpoint, "argsHash": hash, "via": "cli", "by": map[string]string{"iss": "local", "sub": "ada"}}
	second := map[string]any{"checkpointId": checkpoint, "argsHash": hash, "via": "cli", "by": map[string]string{"iss": "local", "sub": "bob"}, "outcome": approve}
	switch o.answer {
	case reject:
		body["outcome"], body["reason"] = reject, "too much"
	case edit:
		body["outcome"], body["args"] = approve, o.edited
		second["outcome"], second["reason"] = reject, "no"
	default:
		body["outcome"] = approve
		second["outcome"], second["reason"] = reject, "no"
	}
	if err := l.decide(ctx, body); err != nil && o.cancel == 0 {
		l.refuse("answer to "+checkpoint, err)
		return
	}
	if err := request(ctx, l.cfg.NATS, endpointDecide, second); err == nil {
		l.refuse("second answer to "+checkpoint, errors.New("it was taken"))
	}
}

// decide asks until approvals knows the question: it hears of it when it can.
func (l *Load) decide(ctx context.Context, body map[string]any) error {
	const tries = 40
	for try := 0; ; try++ {
		err := request(ctx, l.cfg.NATS, endpointDecide, body)
		var no *refusal
		if !errors.As(err, &no) || no.code != "CHECKPOINT_NOT_FOUND" || no.settled || try == tries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryPause):
		}
	}
}

// Settled waits until every accepted run has ended and everything that the
// clients had to say is said. It reports how many have not ended when ctx does.
func (l *Load) Settled(ctx context.Context) (missing int) {
	for {
		l.mu.Lock()
		missing, moved := 0, l.moved
		for run := range l.accepted {
			if !l.ended[run] {
				missing++
			}
		}
		l.mu.Unlock()
		if missing == 0 {
			l.busy.Wait()
			return 0
		}
		select {
		case <-ctx.Done():
			return missing
		case <-moved:
		}
	}
}

// Progress is how many runs were accepted and how many have ended.
func (l *Load) Progress() (accepted, ended int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accepted), len(l.ended)
}

// Requests are the runs that were asked for, and Answers when questions were first
// answered: the client's part of a history.
func (l *Load) Requests() (requests []check.Request, answers map[string]time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for run, o := range l.orders {
		requests = append(requests, check.Request{Run: run, Accepted: l.accepted[run], Cancel: o.cancel > 0, Calls: toolCalls, Ask: o.asks()})
	}
	answers = map[string]time.Time{}
	for id, at := range l.answers {
		answers[id] = at
	}
	return requests, answers
}

// Refused lists what the mesh refused and should not have.
func (l *Load) Refused() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}
