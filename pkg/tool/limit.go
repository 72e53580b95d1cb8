package tool

import (
	"context"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// limits bound one execution; zero is no limit.
type limits struct {
	noun  string
	total time.Duration // from the start to the result
	idle  time.Duration // of silence, streaming tools only
}

// watch cancels with TOOL_TIMEOUT when a limit fires, until stop is called.
func (l limits) watch(cancel context.CancelCauseFunc, o *outlet) (stop func()) {
	var timers []*time.Timer
	if l.total > 0 {
		timers = append(timers, time.AfterFunc(l.total, func() { cancel(l.fired("total")) }))
	}
	if l.idle > 0 {
		t := time.AfterFunc(l.idle, func() { cancel(l.fired("idle")) })
		o.mu.Lock()
		o.busy = func() { t.Stop() }
		o.idle = func() { t.Reset(l.idle) }
		o.mu.Unlock()
		timers = append(timers, t)
	}
	return func() {
		for _, t := range timers {
			t.Stop()
		}
	}
}

// fired is the fault of the limit that fired; it names both (F037).
func (l limits) fired(which string) *fault.Error {
	var e *fault.Error
	if which == "idle" {
		e = fault.New(fault.ToolTimeout, "the %s was silent longer than its idle limit of %v (total limit %s)", l.noun, l.idle, name(l.total))
	} else {
		e = fault.New(fault.ToolTimeout, "the %s ran longer than its total limit of %v (idle limit %s)", l.noun, l.total, name(l.idle))
	}
	return l.with(e, which)
}

// deadline is the fault of a call whose context had an earlier deadline than
// the tool's own limits.
func (l limits) deadline() *fault.Error {
	return l.with(fault.New(fault.ToolTimeout, "the call's deadline passed before the %s answered (total limit %s, idle limit %s)", l.noun, name(l.total), name(l.idle)), "deadline")
}

func (l limits) with(e *fault.Error, which string) *fault.Error {
	return e.With("limit", which).With("timeoutMs", l.total.Milliseconds()).With("idleTimeoutMs", l.idle.Milliseconds())
}

func name(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return d.String()
}
