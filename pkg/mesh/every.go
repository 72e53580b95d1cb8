package mesh

import (
	"sync"
	"time"
)

// Every calls f each d, one call at a time, until stop is called; a call may be
// under way then. It costs a timer and, between calls, no goroutine: most messages
// are done long before their first heartbeat.
func Every(d time.Duration, f func()) (stop func()) {
	e := &every{}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.timer = time.AfterFunc(d, func() {
		if e.isOver() {
			return
		}
		f()
		e.again(d)
	})
	return e.stop
}

type every struct {
	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

func (e *every) isOver() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.over
}

func (e *every) again(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.timer.Reset(d)
	}
}

func (e *every) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	e.timer.Stop()
}
