package worker_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

// deaf serves on a connection whose heartbeats come too late for the queue: the
// message comes back although its worker lives.
func (l *lab) deaf(cfg worker.Config, tools ...tool.Tool) {
	l.t.Helper()
	cfg.Group, cfg.Verify = group, verify
	conn := l.Connect("deaf")
	conn.Settings.AckWait = time.Hour
	w, err := worker.New(l.t.Context(), cfg, conn, tools...)
	if err != nil {
		l.t.Fatal(err)
	}
	l.background(w.Run)
}

// P12: a redelivery while the holder lives is no reason for unknown.
func TestWorker_P12_NoUnknownWhileTheHolderLives(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		entered := make(chan struct{}, 1)
		c := counting("pay", crumbs.EffectOnce, func(ctx tool.Context, in input) (any, error) {
			entered <- struct{}{}
			return "paid", after(ctx, time.Minute)
		})
		l.deaf(worker.Config{Name: "w1", Slots: 1}, c.Tool)
		l.send(call(t, c.Tool, `{"n":1}`))
		<-entered
		l.serve(worker.Config{Name: "w2"}, c.Tool)
		if r := l.result(); r.Status != crumbs.StatusOK || r.Worker != "w1" {
			t.Errorf("result %+v", r)
		}
		c.want(t, 1)
		l.quiet(time.Minute)
		l.settled()
	})
}

// The message may come back to the very process that works on it.
func TestWorker_OwnRedeliveryStartsNothing(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		c := counting("look", crumbs.EffectPure, func(ctx tool.Context, in input) (any, error) {
			return "seen", after(ctx, time.Minute)
		})
		l.deaf(worker.Config{Name: "w1"}, c.Tool)
		l.send(call(t, c.Tool, `{"n":1}`))
		if r := l.result(); r.Status != crumbs.StatusOK || r.Delivery != 1 {
			t.Errorf("result %+v", r)
		}
		c.want(t, 1)
		l.quiet(time.Minute)
		l.settled()
	})
}

// A lost acknowledgement: the result is stored, and the message comes back to
// the worker that ran it.
func TestWorker_FinishedCallIsOnlyAcknowledged(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		c := counting("pay", crumbs.EffectOnce, double)
		w, err := worker.New(t.Context(), worker.Config{Group: group, Name: "w1"}, l.Connect("worker"), c.Tool)
		if err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(call(t, c.Tool, `{"n":1}`))
		if err != nil {
			t.Fatal(err)
		}
		d := &mesh.Delivery{Subject: crumbs.ToolCallSubject(group, run), Data: body, Sequence: 1}
		for d.Count = 1; d.Count <= 3; d.Count++ {
			if err := w.Handle(t.Context(), d); err != nil {
				t.Errorf("delivery %d: %v", d.Count, err)
			}
		}
		wantStatus(t, l.result(), crumbs.StatusOK, "")
		l.quiet(time.Minute)
		c.want(t, 1)
	})
}
