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
)

// Publisher publishes recorded decisions, again and again until the row says
// that the run has spoken. INBOX holds one copy at most, and the run applies one.
type Publisher struct {
	conn     *mesh.Conn
	register *Register
	every    time.Duration

	mu  sync.Mutex
	due map[crumbs.CheckpointID]repeat
}

type repeat struct {
	at   time.Time
	wait time.Duration
}

// NewPublisher returns a Publisher that repeats after every at first.
func NewPublisher(conn *mesh.Conn, register *Register, every time.Duration) *Publisher {
	return &Publisher{conn: conn, register: register, every: every, due: map[crumbs.CheckpointID]repeat{}}
}

// Watch makes the publisher responsible for a row that may just have been
// decided; its first repetition comes after the usual wait.
func (p *Publisher) Watch(id crumbs.CheckpointID) {
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

func (p *Publisher) forget(id crumbs.CheckpointID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.due, id)
}

// Survey finds every decided row; the ones not watched yet are due at once.
func (p *Publisher) Survey(ctx context.Context) error {
	return p.register.heads(ctx, everyRow, func(row decision.Approval) {
		if row.Status == decision.StatusDecided {
			p.add(row.CheckpointID, repeat{wait: p.every})
		}
	})
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
		if !p.due[id].at.After(now) {
			ids = append(ids, id)
		}
	}
	return ids
}

// again publishes one decision once more, unless its row is settled by now.
func (p *Publisher) again(ctx context.Context, id crumbs.CheckpointID, now time.Time) error {
	row, err := p.register.Row(ctx, id)
	if err != nil {
		return err
	}
	if row.Status != decision.StatusDecided {
		p.forget(id)
		return nil
	}
	p.mu.Lock()
	wait := min(max(p.due[id].wait, p.every)*2, max(republishMax, p.every))
	p.due[id] = repeat{at: now.Add(wait), wait: wait}
	p.mu.Unlock()
	return p.Publish(ctx, row)
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
