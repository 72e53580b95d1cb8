package client

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// OnHumanRequired calls f once for each question that is read, in the order they
// were asked, whatever connections drop in between: for a page that shows them, a
// mail, a chat. With After only for those with a higher number. A question says
// what a person must know to answer it: its id, agent, run, session, tool, call,
// arguments and kind. Resume answers it; one that was answered elsewhere by then is
// CHECKPOINT_NOT_FOUND.
//
// f runs beside the reading, one call after another: a slow f delays no crumb, and
// Follow, Wait and Run return when the last call of f has. When ctx, which f is
// given, has ended, no further call begins. A panic of f ends that call of it, is
// logged, and disturbs nothing else.
func OnHumanRequired(f func(ctx context.Context, q crumbs.HumanRequired)) FollowOption {
	return func(o *following) { o.asked = f }
}

// unlessSeen leaves out the questions up to a number.
func unlessSeen(seq uint64, f func(context.Context, crumbs.HumanRequired)) func(context.Context, crumbs.HumanRequired) {
	return func(ctx context.Context, q crumbs.HumanRequired) {
		if q.Seq > seq {
			f(ctx, q)
		}
	}
}

// teller tells of questions, one after another, beside who reads them. What waits
// is bounded by the questions of a run, and those by its steps.
type teller struct {
	tell func(context.Context, crumbs.HumanRequired)
	log  *slog.Logger
	told sync.WaitGroup // ends when nothing waits

	mu      sync.Mutex
	telling bool
	waiting []crumbs.HumanRequired
}

// beside returns yield with the questions told of before they are handed on.
func (t *teller) beside(ctx context.Context, yield func(Item, error) bool) func(Item, error) bool {
	return func(item Item, err error) bool {
		if err == nil && item.Type == crumbs.TypeHumanRequired {
			var q crumbs.HumanRequired
			if err := item.Decode(&q); err != nil {
				return yield(item, err)
			}
			t.take(ctx, q)
		}
		return yield(item, err)
	}
}

func (t *teller) take(ctx context.Context, q crumbs.HumanRequired) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = append(t.waiting, q)
	if !t.telling {
		t.telling = true
		t.told.Go(func() {
			for q, ok := t.next(); ok; q, ok = t.next() {
				if ctx.Err() == nil {
					t.call(ctx, q)
				}
			}
		})
	}
}

func (t *teller) next() (q crumbs.HumanRequired, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.telling = false
		return q, false
	}
	q, t.waiting = t.waiting[0], t.waiting[1:]
	return q, true
}

func (t *teller) call(ctx context.Context, q crumbs.HumanRequired) {
	defer func() {
		if r := recover(); r != nil {
			t.log.Error("OnHumanRequired panicked", "checkpoint", q.CheckpointID, "panic", r, "stack", string(debug.Stack()))
		}
	}()
	t.tell(ctx, q)
}
