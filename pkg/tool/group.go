package tool

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// group is the goroutines of one call. The first failure is kept and cancels
// the call's context.
type group struct {
	noun    string     // what the call is of
	code    fault.Code // of a panic
	cancel  context.CancelCauseFunc
	logger  *slog.Logger
	failure func(error) *fault.Error

	wg    sync.WaitGroup
	mu    sync.Mutex
	first error
}

func (g *group) start(f func() error) {
	g.wg.Add(1)
	go func() {
		defer g.wg.Done()
		err := g.guard(func() error {
			if err := f(); err != nil {
				return g.failure(err)
			}
			return nil
		})
		if err != nil {
			g.fail(err)
		}
	}()
}

func (g *group) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first == nil {
		g.first = err
		g.cancel(err)
	}
}

func (g *group) wait() error {
	g.wg.Wait()
	return g.failed()
}

func (g *group) failed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.first
}

// guard runs f in a goroutine of its own and turns a panic or runtime.Goexit
// into TOOL_ERROR, of a hook HOOK_ERROR. The goroutine is needed: Goexit cannot be stopped in the one
// that calls it. What was panicked with stays in the log: it may hold anything.
func (g *group) guard(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := error(fault.New(g.code, "the %s ended its goroutine (runtime.Goexit) without a result; return an error instead", g.noun))
		defer func() {
			if r := recover(); r != nil {
				g.logger.Error(g.noun+" panicked", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
				err = fault.New(g.code, "the %s panicked; the worker's log has the stack", g.noun)
			}
			done <- err
		}()
		err = f()
	}()
	return <-done
}
