package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// instants keeps when something happened, by name.
type instants struct {
	mu sync.Mutex
	at map[string]time.Time
}

func newInstants() *instants { return &instants{at: map[string]time.Time{}} }

func (i *instants) note(name string, at time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, ok := i.at[name]; !ok {
		i.at[name] = at
	}
}

// since returns how long after each instant of from the one of the same name in i
// came. Names that only one of them has are left out.
func (i *instants) since(from *instants) []time.Duration {
	var out []time.Duration
	for name, at := range i.at {
		if begun, ok := from.at[name]; ok {
			out = append(out, at.Sub(begun))
		}
	}
	return out
}

// latencies measures single runs on a mesh that does nothing else.
func latencies(ctx context.Context, o options, dir string, report *Report) error {
	sent, asked, started := newInstants(), newInstants(), newInstants()
	l, err := newLive(ctx, dir, "latency", parts{orchestrator: true, called: func(c tool.Context) { started.note(string(c.CallID), time.Now()) }})
	if err != nil {
		return err
	}
	defer l.stop()
	if err := l.apply(ctx); err != nil {
		return err
	}
	if err := warm(ctx, l, o.warm); err != nil {
		return err
	}
	if _, err := l.client.NATS.Subscribe(crumbs.SubjectToolCalls, func(m *nats.Msg) { // ce-time is read directly before the publish
		e, err := crumbs.ReadEvent(m.Header, m.Data)
		if call, _, ok := cutAttempt(e.ID); err == nil && ok {
			sent.note(call, e.Time)
		}
	}); err != nil {
		return err
	}
	for range o.calls {
		if err := one(ctx, l); err != nil {
			return err
		}
	}
	report.add("tool dispatch: orchestrator publishes → handler starts, idle", "ms", started.since(sent))
	q, err := newQuestions(l)
	if err != nil {
		return err
	}
	for range o.calls {
		if err := q.answered(ctx, asked); err != nil {
			return err
		}
	}
	report.add("decision → resumed tool starts, idle", "ms", started.since(asked))
	return nil
}

// cutAttempt splits `<call>.<attempt>`.
func cutAttempt(id string) (call, attempt string, ok bool) {
	n := strings.LastIndexByte(id, '.')
	if n < 0 {
		return id, "", false
	}
	return id[:n], id[n+1:], true
}

// questions starts runs of cashier and hears what they ask.
type questions struct {
	*live
	api  *client.Client
	open chan crumbs.HumanRequired
}

// openMax bounds how many questions may be heard and not yet taken.
const openMax = 100_000

func newQuestions(l *live) (*questions, error) {
	q := &questions{live: l, api: client.New(l.client), open: make(chan crumbs.HumanRequired, openMax)}
	// The row follows the crumb: an answer that comes now finds the question stored.
	_, err := l.client.NATS.Subscribe("$KV."+crumbs.BucketApprovals+".>", func(m *nats.Msg) {
		var row struct {
			Status     string                `json:"status"`
			Checkpoint *crumbs.HumanRequired `json:"checkpoint"`
		}
		if json.Unmarshal(m.Data, &row) == nil && row.Status == "open" && row.Checkpoint != nil {
			q.open <- *row.Checkpoint
		}
	})
	return q, err
}

// ask starts a run that will ask.
func (q *questions) ask(ctx context.Context) (crumbs.RunID, error) {
	run := crumbs.NewRunID()
	m, err := request(cashier, run)
	if err != nil {
		return run, err
	}
	_, err = q.client.Publish(ctx, m)
	return run, err
}

// next waits for a question.
func (q *questions) next(ctx context.Context) (crumbs.HumanRequired, error) {
	ctx, cancel := context.WithTimeout(ctx, runMax)
	defer cancel()
	select {
	case h := <-q.open:
		return h, nil
	case <-ctx.Done():
		return crumbs.HumanRequired{}, fmt.Errorf("no question came: %w", ctx.Err())
	}
}

// answered carries one run out whose question is approved at once.
func (q *questions) answered(ctx context.Context, asked *instants) error {
	run, err := q.ask(ctx)
	if err != nil {
		return err
	}
	h, err := q.next(ctx)
	if err != nil {
		return err
	}
	if h.RunID != run {
		return errors.New("another run asked")
	}
	ended := q.await(run)
	asked.note(string(h.CheckpointID), time.Now())
	if _, err := q.api.Resume(ctx, h.CheckpointID, client.Approve(h, crumbs.Principal{Issuer: "bench", Subject: "ada"})); err != nil {
		return err
	}
	select {
	case <-ended:
		return nil
	case <-time.After(runMax):
		return fmt.Errorf("run %s did not end", run)
	}
}
