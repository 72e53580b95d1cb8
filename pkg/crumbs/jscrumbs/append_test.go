package jscrumbs_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs/jscrumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// outbox returns the crumbs first to last of a run.
func (a *author) outbox(first, last uint64) []*nats.Msg {
	var out []*nats.Msg
	for seq := first; seq <= last; seq++ {
		out = append(out, a.messageOf(seq, crumbs.TypeToolCalled, nil))
	}
	return out
}

// stored returns the ce-sequences of a run in the order of the stream.
func stored(t *testing.T, conn *mesh.Conn, run crumbs.RunID) []string {
	t.Helper()
	ctx := context.Background()
	s, err := conn.JS.Stream(ctx, crumbs.StreamCrumbs)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for next := uint64(1); ; {
		m, err := s.GetMsg(ctx, next, jetstream.WithGetMsgSubject(crumbs.RunCrumbsFilter(run)))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.TrimLeft(m.Header.Get("ce-sequence"), "0"))
		next = m.Sequence + 1
	}
}

func TestAppend_FenceGoesOn(t *testing.T) {
	t.Parallel()
	m, ctx := meshtest.Start(t), context.Background()
	a := newAuthor(t, m.Conn, "run_1")
	filter := crumbs.CrumbFilter(agent, a.run)
	fence, err := jscrumbs.Append(ctx, m.Conn, filter, jscrumbs.Fence{}, 1, a.outbox(1, 3))
	if err != nil || fence.Seq != 3 {
		t.Fatalf("fence %+v, %v; want number 3", fence, err)
	}
	if last, err := jscrumbs.Last(ctx, m.Conn, filter); err != nil || last != fence {
		t.Fatalf("last %+v, %v; want the fence %+v", last, err, fence)
	}
	if fence, err = jscrumbs.Append(ctx, m.Conn, filter, fence, 4, a.outbox(4, 5)); err != nil || fence.Seq != 5 {
		t.Fatalf("fence %+v, %v; want number 5", fence, err)
	}
	if diff := cmp.Diff([]string{"1", "2", "3", "4", "5"}, stored(t, m.Conn, a.run)); diff != "" {
		t.Error(diff)
	}
}

// A fence that others overtook is resolved by reading the run's last crumb back:
// what is stored is not stored again, what is not comes after it.
func TestAppend_ConflictIsReadBack(t *testing.T) {
	t.Parallel()
	m, ctx := meshtest.Start(t), context.Background()
	a := newAuthor(t, m.Conn, "run_1")
	filter := crumbs.CrumbFilter(agent, a.run)
	first, err := jscrumbs.Append(ctx, m.Conn, filter, jscrumbs.Fence{}, 1, a.outbox(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := jscrumbs.Append(ctx, m.Conn, filter, first, 2, a.outbox(2, 3)); err != nil {
		t.Fatal(err)
	}
	for name, fence := range map[string]jscrumbs.Fence{
		"before the other's": first, "none": {}, "wrong stream sequence": {Seq: 3, Stream: 999}, "already over": {Seq: 4, Stream: 4},
	} {
		got, err := jscrumbs.Append(ctx, m.Conn, filter, fence, 2, a.outbox(2, 4))
		if err != nil || got.Seq != 4 {
			t.Errorf("%s: fence %+v, %v; want number 4", name, got, err)
		}
	}
	if diff := cmp.Diff([]string{"1", "2", "3", "4"}, stored(t, m.Conn, a.run)); diff != "" {
		t.Error(diff)
	}
}

func TestAppend_TwoAppendersRace(t *testing.T) {
	t.Parallel()
	m, ctx := meshtest.Start(t), context.Background()
	var writers sync.WaitGroup
	runs := []crumbs.RunID{"run_1", "run_2", "run_3"}
	for range 2 {
		conn := m.Connect("appender")
		for _, run := range runs {
			a := newAuthor(t, conn, run)
			early, late := a.outbox(1, 6), a.outbox(7, 12)
			writers.Go(func() {
				fence, err := jscrumbs.Append(ctx, conn, crumbs.CrumbFilter(agent, run), jscrumbs.Fence{}, 1, early)
				if err == nil {
					fence, err = jscrumbs.Append(ctx, conn, crumbs.CrumbFilter(agent, run), fence, 7, late)
				}
				if err != nil || fence.Seq != 12 {
					t.Errorf("%s: fence %+v, %v; want number 12", run, fence, err)
				}
			})
		}
	}
	writers.Wait()
	want := []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"}
	for _, run := range runs {
		if diff := cmp.Diff(want, stored(t, m.Conn, run)); diff != "" {
			t.Errorf("%s: %s", run, diff)
		}
	}
}

// Crumbs that aged out were delivered once: the next is stored all the same.
func TestAppend_EarlierCrumbsAgedOut(t *testing.T) {
	t.Parallel()
	m, ctx := meshtest.Start(t), context.Background()
	s, err := m.Conn.JS.Stream(ctx, crumbs.StreamCrumbs)
	if err != nil {
		t.Fatal(err)
	}
	for name, forgets := range map[crumbs.RunID]bool{"run_knows": false, "run_forgot": true} {
		a := newAuthor(t, m.Conn, name)
		a.crumbs(crumbs.TypeRunStarted, crumbs.TypeToolCalled)
		filter := crumbs.CrumbFilter(agent, a.run)
		if err := s.Purge(ctx, jetstream.WithPurgeSubject(filter)); err != nil {
			t.Fatal(err)
		}
		fence := a.fence
		if forgets {
			fence = jscrumbs.Fence{}
		}
		if got, err := jscrumbs.Append(ctx, m.Conn, filter, fence, 3, a.outbox(3, 4)); err != nil || got.Seq != 4 {
			t.Errorf("%s: fence %+v, %v; want number 4", name, got, err)
		}
		if diff := cmp.Diff([]string{"3", "4"}, stored(t, m.Conn, a.run)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A crumb is never stored over a hole.
func TestAppend_RefusesAHole(t *testing.T) {
	t.Parallel()
	m, ctx := meshtest.Start(t), context.Background()
	a := newAuthor(t, m.Conn, "run_1")
	a.crumbs(crumbs.TypeRunStarted)
	_, err := jscrumbs.Append(ctx, m.Conn, crumbs.CrumbFilter(agent, a.run), a.fence, 3, a.outbox(3, 3))
	if !errors.Is(err, fault.Of(fault.InternalError)) {
		t.Errorf("got %v, want INTERNAL_ERROR", err)
	}
	if diff := cmp.Diff([]string{"1"}, stored(t, m.Conn, a.run)); diff != "" {
		t.Error(diff)
	}
}

func TestAppend_SaysWhyItCannot(t *testing.T) {
	t.Parallel()
	m, ctx := meshtest.Start(t), context.Background()
	a := newAuthor(t, m.Conn, "run_1")
	filter := crumbs.CrumbFilter(agent, a.run)
	large := a.messageOf(1, crumbs.TypeRunStarted, map[string]any{"input": strings.Repeat("x", mesh.PayloadMax)})
	if _, err := jscrumbs.Append(ctx, m.Conn, filter, jscrumbs.Fence{}, 1, []*nats.Msg{large}); !errors.Is(err, fault.Of(fault.PayloadTooLarge)) {
		t.Errorf("got %v, want PAYLOAD_TOO_LARGE", err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	if _, err := jscrumbs.Append(ended, m.Conn, filter, jscrumbs.Fence{}, 1, a.outbox(1, 1)); !errors.Is(err, fault.Of(fault.Unavailable)) {
		t.Errorf("got %v, want UNAVAILABLE", err)
	}
	m.Conn.Close()
	if _, err := jscrumbs.Last(ctx, m.Conn, filter); !errors.Is(err, fault.Of(fault.Unavailable)) {
		t.Errorf("got %v, want UNAVAILABLE", err)
	}
}
