package worker

import (
	"context"
	"sync"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// locks lets one message of a run be decided at a time in this process. A
// message that waits holds no other resource of the run machine.
type locks struct {
	mu   sync.Mutex
	runs map[crumbs.RunID]*turn
}

type turn struct {
	free chan struct{} // holds one token
	held int           // owners and waiters
}

func newLocks() *locks { return &locks{runs: map[crumbs.RunID]*turn{}} }

func (l *locks) lock(ctx context.Context, run crumbs.RunID) (unlock func(), err error) {
	l.mu.Lock()
	t, ok := l.runs[run]
	if !ok {
		t = &turn{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		l.runs[run] = t
	}
	t.held++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if t.held--; t.held == 0 {
			delete(l.runs, run)
		}
	}
	select {
	case <-t.free:
		return func() { t.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, fault.Wrap(fault.ShuttingDown, ctx.Err(), "stopped while the run was busy")
	}
}
