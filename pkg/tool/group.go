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
		err := guard(g.logger, func() error {
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
// into TOOL_ERROR. The goroutine is needed: Goexit cannot be stopped in the one
// that calls it. What was panicked with stays in the log: it may hold anything.
func guard(logger *slog.Logger, f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := error(fault.New(fault.ToolError, "the tool ended its goroutine (runtime.Goexit) without a result; return an error instead"))
		defer func() {
			if r := recover(); r != nil {
				logger.Error("tool panicked", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
				err = fault.New(fault.ToolError, "the tool panicked; the worker's log has the stack")
			}
			done <- err
		}()
		err = f()
	}()
	return <-done
}
