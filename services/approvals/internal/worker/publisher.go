package worker

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

const (
	// RepublishEvery is how long a decision waits for its human:resumed before it
	// is published again; the wait doubles up to republishMax.
	RepublishEvery = 2 * time.Second
	republishMax   = time.Minute
	// surveyEvery is how often all rows are looked through for decisions that
	// another replica recorded and did not live to publish.
	surveyEvery = time.Minute
	// publishMax bounds one try.
	publishMax = 5 * time.Second
	// publishInFlight is how many decisions are published again at once.
	publishInFlight = 16
	// copiesMax is how many copies in a row the orchestrators take without a word of
	// the run until a decision rests. The waits between them double up to copyMax, so
	// that is after two hours or more: longer than the rollout of a new public key.
	copiesMax = 12
	copyMax   = time.Hour
)

// Publisher publishes recorded decisions, again and again until the row says
// that the run has spoken. INBOX holds one copy at most, and the run applies one. A
// decision whose copies are taken and not applied is refused, each a dead letter, or
// its run is gone: after copiesMax of them it rests, until somebody answers the
// question again or the service restarts. A copy that waits is none of these, however
// long nobody takes it.
type Publisher struct {
	// Hold, when set, makes the signing key that of the mesh again after the bucket
	// was lost.
	Hold func(context.Context) error

	conn     *mesh.Conn
	register *Register
	every    time.Duration

	mu  sync.Mutex
	due map[crumbs.CheckpointID]repeat
}

type repeat struct {
	at    time.Time
	wait  time.Duration
	taken int  // copies
	rests bool // nothing is due
}

// NewPublisher returns a Publisher that repeats after every at first.
func NewPublisher(conn *mesh.Conn, register *Register, every time.Duration) *Publisher {
	return &Publisher{conn: conn, register: register, every: every, due: map[crumbs.CheckpointID]repeat{}}
}

// Watch makes the publisher responsible for a row that may just have been
// decided; its first repetition comes after the usual wait. One that rests is due
// again: whoever answers once more wants it applied.
func (p *Publisher) Watch(id crumbs.CheckpointID) {
	p.wake(id)
	p.add(id, repeat{at: time.Now().Add(p.every), wait: p.every})
}

// add leaves the schedule of a row that is watched already as it is.
func (p *Publisher) add(id crumbs.CheckpointID, first repeat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, watched := p.due[id]; !watched {
		p.due[id] = first
	}
}

// wake makes a decision that rests due again.
func (p *Publisher) wake(id crumbs.CheckpointID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.due[id].rests {
		p.due[id] = repeat{wait: p.every}
	}
}

// keep forgets the resting decisions that are not among the decided any more.
func (p *Publisher) keep(decided map[crumbs.CheckpointID]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.due, func(id crumbs.CheckpointID, r repeat) bool { return r.rests && !decided[id] })
}

func (p *Publisher) forget(id crumbs.CheckpointID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.due, id)
}

// Survey finds every decided row; the ones not watched yet are due at once.
func (p *Publisher) Survey(ctx context.Context) error {
	decided := map[crumbs.CheckpointID]bool{}
	err := p.register.heads(ctx, everyRow, func(row decision.Approval) {
		if row.Status == decision.StatusDecided {
			decided[row.CheckpointID] = true
			p.add(row.CheckpointID, repeat{wait: p.every})
		}
	})
	if err == nil {
		p.keep(decided)
	}
	return err
}

// Run publishes what is due until ctx ends. It begins with a survey, so that
// what an earlier process recorded goes out before anything else.
func (p *Publisher) Run(ctx context.Context) error {
	tick, survey := time.NewTicker(p.every), time.NewTicker(surveyEvery)
	defer tick.Stop()
	defer survey.Stop()
	p.survey(ctx)
	for {
		p.round(ctx, time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-survey.C:
			p.survey(ctx)
		}
	}
}

// survey also repairs a bucket whose contents were lost while the service ran. A
// failure is not the end: the next one comes in a minute.
func (p *Publisher) survey(ctx context.Context) {
	err := p.register.EnsureBuilt(ctx)
	if err == nil && p.Hold != nil {
		err = p.Hold(ctx)
	}
	if err == nil {
		err = p.Survey(ctx)
	}
	if err != nil && ctx.Err() == nil {
		p.conn.Log.Warn("survey of the approvals", "error", err)
	}
}

func (p *Publisher) round(ctx context.Context, now time.Time) {
	var all sync.WaitGroup
	slots := make(chan struct{}, publishInFlight)
	for _, id := range p.dueAt(now) {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if err := p.again(ctx, id, now); err != nil && ctx.Err() == nil {
				p.conn.Log.Warn("decision not published yet", "checkpoint", id, "error", err)
			}
		})
	}
	all.Wait()
}

func (p *Publisher) dueAt(now time.Time) []crumbs.CheckpointID {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ids []crumbs.CheckpointID
	for _, id := range slices.Sorted(maps.Keys(p.due)) {
		if r := p.due[id]; !r.rests && !r.at.After(now) {
			ids = append(ids, id)
		}
	}
	return ids
}

// again publishes one decision once more, unless its row is settled by now or it
// shall rest.
func (p *Publisher) again(ctx context.Context, id crumbs.CheckpointID, now time.Time) error {
	row, err := p.register.Row(ctx, id)
	if err != nil {
		return err
	}
	if row.Status != decision.StatusDecided {
		p.forget(id)
		return nil
	}
	waiting, err := p.conn.LastDirect(ctx, crumbs.StreamInbox, crumbs.DecisionSubject(row.RunID, id))
	if rests := p.schedule(id, now, err == nil && waiting == nil).rests; err == nil && rests {
		p.conn.Log.ErrorContext(ctx, "decision rests: its copies were taken and not applied. It is refused (crumb explain), or its run is gone; answering the question again, or a restart of this service, publishes it again",
			"checkpoint", id, "run", row.RunID, "kid", row.Decision.KeyID, "copies", copiesMax)
		return nil
	}
	return p.Publish(ctx, row)
}

// schedule notes when a decision is due next. taken says that no copy waits: one
// that was published was taken.
func (p *Publisher) schedule(id crumbs.CheckpointID, now time.Time, taken bool) repeat {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, longest := p.due[id], republishMax
	if taken {
		r.taken, longest = r.taken+1, copyMax
	}
	r.wait = min(max(r.wait, p.every)*2, max(longest, p.every))
	r.at, r.rests = now.Add(r.wait), r.taken > copiesMax
	p.due[id] = r
	return r
}

// Publish sends the decision of a row to its run. That one waits there already
// is success. It returns UNAVAILABLE or SHUTTING_DOWN when it could not be
// stored within publishMax.
func (p *Publisher) Publish(ctx context.Context, row decision.Approval) error {
	body, err := json.Marshal(row.Decision)
	if err != nil {
		return fault.Wrap(fault.InternalError, err, "the decision on %s does not encode", row.CheckpointID)
	}
	event := crumbs.Event{
		ID: string(row.CheckpointID), Source: crumbs.Source("approvals"), Type: crumbs.CEType(crumbs.TypeDecision),
		Subject: "run/" + string(row.RunID), Time: row.Decision.At.Time, RunID: row.RunID, AgentID: row.AgentID, SessionID: row.SessionID,
		TraceParent: mesh.TraceParent(ctx), Data: body,
	}
	msg, err := event.Message(crumbs.DecisionSubject(row.RunID, row.CheckpointID))
	if err != nil {
		return err
	}
	mesh.InjectTrace(ctx, msg)
	ctx, cancel := context.WithTimeout(ctx, publishMax)
	defer cancel()
	return p.conn.PublishOnce(ctx, msg)
}
