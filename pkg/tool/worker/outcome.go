package worker

import (
	"encoding/json"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// Bounds of an error on the wire, in bytes; a tool may return any fault.
const (
	messageMax = 16 << 10
	contextMax = 16 << 10
)

// outcome is what one attempt came to.
type outcome struct {
	status      string
	result      json.RawMessage
	fault       *fault.Error
	interrupted bool // by a limit, a cancel or this process stopping
	untouched   bool // the handler was not entered
	worker      string
	started     time.Time
	took        time.Duration
	deltas      int
	partials    []json.RawMessage // kept ones
	omitted     int
	files       []crumbs.File
}

// failed is the outcome of an error. An interrupted call is unknown when it must
// not happen twice: how far its handler got nobody knows.
func (r *request) failed(err error) outcome {
	o := outcome{status: crumbs.StatusError, worker: r.cfg.Name, fault: bounded(r.secrets.Masker().Fault(fault.From(err)))}
	switch o.fault.Code {
	case fault.ToolCancelled:
		o.status, o.interrupted = crumbs.StatusCancelled, true
	case fault.ToolTimeout:
		o.interrupted = true
	}
	if o.interrupted && effectOf(r.call) == crumbs.EffectOnce {
		o.status = crumbs.StatusUnknown
		o.fault = fault.New(fault.OutcomeUnknown, "the call was interrupted and whether its effect happened is not known: %s", o.fault.Message).
			With("callId", r.call.CallID).With("cause", o.fault.Code)
	}
	return o
}

// orphaned is the outcome of a call whose worker is gone. It names that worker:
// every unknown can be traced to a process that died.
func (r *request) orphaned(claim mesh.Claim) outcome {
	return outcome{
		status: crumbs.StatusUnknown, worker: claim.Worker, started: claim.At.Time,
		fault: fault.New(fault.OutcomeUnknown, "worker %s started the call and is gone; whether its effect happened is not known", claim.Worker).
			With("callId", r.call.CallID).With("worker", claim.Worker),
	}
}

// bounded keeps an error small, and such that it can be written and read.
func bounded(f *fault.Error) *fault.Error {
	c := *f.Listed(fault.ToolError)
	if len(c.Message) > messageMax {
		c.Message = c.Message[:messageMax] + "…"
	}
	if b, err := json.Marshal(c.Context); err != nil || len(b) > contextMax || argument.Depth(b) > tool.DepthMax {
		c.Context = map[string]any{"dropped": "the error's context could not be carried"}
	}
	return &c
}

// body is the outcome as the wire has it.
func (r *request) body(o outcome) crumbs.ToolResult {
	b := crumbs.ToolResult{
		Type: crumbs.TypeToolResult, RunID: r.call.RunID, CallID: r.call.CallID, Attempt: r.call.Attempt,
		Group: r.cfg.Group, Worker: o.worker, Delivery: r.delivery.Count, Status: o.status,
		Partials: o.partials, PartialsOmitted: o.omitted, Files: o.files,
		Result: o.result, Error: o.fault, Deltas: o.deltas, DurationMs: o.took.Milliseconds(),
	}
	if !o.started.IsZero() {
		at := crumbs.At(o.started)
		b.StartedAt = &at
	}
	return b
}
