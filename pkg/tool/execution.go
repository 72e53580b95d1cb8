package tool

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/secret"
)

// InterruptGrace is how long a handler may take to return after its context is
// done: longer than a program needs to be killed, shorter than the ten seconds
// the run waits for the result of a call it cancels. Then it is abandoned.
const InterruptGrace = 5 * time.Second

// ResultMax is the largest result or partial of a tool, in bytes of JSON.
const ResultMax = 1 << 20

// DepthMax is how deeply a result or partial may be nested, in objects and
// arrays. A deeper one could not be written into the records of its run.
const DepthMax = argument.ResultDepthMax

// execution is one run of a handler.
type execution struct {
	tool   Tool
	ctx    Context
	cancel context.CancelCauseFunc
	limits limits
	group  *group
	outlet *outlet
}

// ending is how a handler came back.
type ending struct {
	result json.RawMessage
	err    error
	cause  error // why the context was done when the handler returned, nil if it was not
}

func newExecution(t Tool, ctx Context, yield Yield) *execution {
	x := &execution{tool: t, limits: limits{noun: t.noun(), total: t.timeout, idle: t.idleTimeout}}
	if ctx.Timeout > 0 {
		x.limits.total = ctx.Timeout
	}
	if ctx.IdleTimeout > 0 {
		x.limits.idle = ctx.IdleTimeout
	}
	if !t.stream {
		x.limits.idle = 0
	}
	parent := ctx.Context
	ctx.Context, x.cancel = context.WithCancelCause(parent)
	if ctx.Secrets == nil {
		ctx.Secrets = secret.NewBook(nil)
	}
	ctx.Logger = ctx.Secrets.Logger(ctx.Logger)
	x.group = &group{noun: t.noun(), code: t.errorCode(), cancel: x.cancel, logger: ctx.Logger, failure: x.failure}
	ctx.group = x.group
	x.ctx = ctx
	x.outlet = &outlet{tool: t, yield: yield, masker: ctx.Secrets.Masker}
	return x
}

// run executes the call; what it returns has no secret in it.
func (x *execution) run(args json.RawMessage) (json.RawMessage, error) {
	result, err := x.settled(args)
	if err != nil {
		return nil, x.ctx.Secrets.Masker().Fault(fault.From(err))
	}
	return x.tool.fits(x.ctx.Secrets.Masker().JSON(result))
}

// fits refuses a masked result or partial with PAYLOAD_TOO_LARGE: the names of
// secrets may be longer than they are.
func (t Tool) fits(v json.RawMessage) (json.RawMessage, error) {
	if len(v) > ResultMax {
		return nil, tooLarge(t.product(), len(v))
	}
	return v, nil
}

func (x *execution) settled(args json.RawMessage) (json.RawMessage, error) {
	defer x.cancel(nil)
	stop := x.limits.watch(x.cancel, x.outlet)
	defer stop()
	defer x.outlet.close()
	if cause := context.Cause(x.ctx); cause != nil {
		return x.settle(ending{err: cause, cause: cause})
	}

	done := make(chan ending, 1)
	go func() { done <- x.invoke(args) }()
	select {
	case e := <-done:
		return x.settle(e)
	case <-x.ctx.Done():
	}
	grace := time.NewTimer(InterruptGrace)
	defer grace.Stop()
	select {
	case e := <-done:
		return x.settle(e)
	case <-grace.C:
		x.ctx.Logger.Warn("a "+x.tool.noun()+" ignores its context; its goroutine is abandoned", x.tool.noun(), x.tool.handlerName)
		cause := context.Cause(x.ctx)
		return x.settle(ending{err: cause, cause: cause})
	}
}

// invoke runs the handler and then waits for the goroutines it started.
func (x *execution) invoke(args json.RawMessage) ending {
	var e ending
	err := x.group.guard(func() error {
		result, err := x.tool.handler(x.ctx, args, x.outlet.send)
		e.result = result
		if err != nil {
			return x.failure(err)
		}
		return nil
	})
	e.err, e.cause = err, context.Cause(x.ctx)
	if err != nil {
		x.cancel(err)
	}
	if first := x.group.wait(); first != nil && (err == nil || errors.Is(err, context.Canceled)) {
		e.err = first
	}
	return e
}

// settle decides what a call came to. A limit always wins: a handler that
// gives up often returns a placeholder without an error (F038). A handler that
// says it finished although its run was cancelled is believed, since what it
// did should be on record.
func (x *execution) settle(e ending) (json.RawMessage, error) {
	var limit *fault.Error
	switch {
	case e.cause == nil || errors.Is(e.cause, x.group.failed()):
	case errors.As(e.cause, &limit) && limit.Code == fault.ToolTimeout:
		return nil, limit
	case errors.Is(e.cause, context.DeadlineExceeded):
		return nil, x.limits.deadline()
	case e.err != nil:
		return nil, cancelled(e.cause)
	}
	if e.err != nil {
		return nil, x.failure(e.err)
	}
	result, err := x.tool.checkResult(e.result)
	if err != nil {
		return nil, err
	}
	return x.tool.answered(x.ctx, result)
}

// cancelled is the fault of a call whose context was cancelled: the cause when
// that is one.
func cancelled(cause error) error {
	var f *fault.Error
	if errors.As(cause, &f) && f != nil {
		return f
	}
	return fault.New(fault.ToolCancelled, "the call was cancelled while it ran")
}

// checkResult refuses what is no result, whatever the tool is for.
func (t Tool) checkResult(v json.RawMessage) (json.RawMessage, error) {
	if len(v) > ResultMax {
		return nil, tooLarge(t.product(), len(v))
	}
	// Before json.Valid, which takes what is deeper than 10,000 levels for a
	// wrong text.
	if depth := argument.Depth(v); depth > DepthMax {
		return nil, t.tooDeep(depth)
	}
	if !json.Valid(v) {
		return nil, fault.New(t.nonsense(), "%s is not JSON (%d bytes); return null when there is none", t.product(), len(v))
	}
	return v, nil
}

func tooLarge(what string, n int) *fault.Error {
	return fault.New(fault.PayloadTooLarge, "%s has %d bytes, the limit is %d: return less, or store it and return a reference", what, n, ResultMax).
		With("bytes", n).With("limit", ResultMax)
}

func (t Tool) tooDeep(depth int) *fault.Error {
	return fault.New(t.nonsense(), "%s is nested %d levels deep, the limit is %d: return a flatter one, or store it and return a reference", t.product(), depth, DepthMax).
		With("depth", depth).With("limit", DepthMax)
}

// outlet passes partials on, one at a time, until the call is over.
type outlet struct {
	tool   Tool
	yield  Yield
	masker func() *secret.Masker

	mu     sync.Mutex
	closed bool
	busy   func() // called around a send: the reader's pace is not the tool's silence
	idle   func()
}

func (o *outlet) send(v json.RawMessage) error {
	if !o.tool.stream {
		return fault.New(fault.ToolError, "the tool yielded a partial but is not declared as streaming")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return fault.New(fault.ToolCancelled, "the call is over; nobody takes more partials")
	}
	v, err := o.tool.checkResult(v)
	if err != nil {
		return err
	}
	if v, err = o.tool.fits(o.masker().Fragment(v)); err != nil {
		return err
	}
	if o.busy != nil {
		o.busy()
		defer o.idle()
	}
	if o.yield == nil {
		return nil
	}
	return o.yield(v)
}

func (o *outlet) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}
