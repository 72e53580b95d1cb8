package worker

import (
	"context"
	"encoding/json"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// read returns the call of a message and the event that carried it. It fails with INVALID_MESSAGE for one that
// is not what its subject says, RUN_NOT_FOUND when its body was put aside and is
// gone, UNAVAILABLE when it cannot be read now.
func (w *Worker) read(ctx context.Context, d *mesh.Delivery) (call crumbs.ToolCall, origin crumbs.Event, err error) {
	origin, err = crumbs.ReadEvent(d.Header, d.Data)
	if err != nil {
		return call, origin, err
	}
	body, err := w.calls.CheckOut(ctx, origin.Data)
	if err != nil {
		return call, origin, err
	}
	if err := json.Unmarshal(body, &call); err != nil {
		return call, origin, fault.Wrap(fault.InvalidMessage, err, "%s: the body is no tool.call", d.Subject)
	}
	return call, origin, checkCall(call, w.cfg.Group, d.Subject)
}

// checkCall refuses a body whose base does not fit.
func checkCall(call crumbs.ToolCall, group, subject string) error {
	bad := func(field string, value any, want string) error {
		return fault.New(fault.InvalidMessage, "%s: %s is %v, expected %s", subject, field, value, want)
	}
	switch {
	case call.Type != crumbs.TypeToolCall:
		return bad("type", call.Type, crumbs.TypeToolCall)
	case call.Group != group:
		return bad("group", call.Group, group)
	case subject != crumbs.ToolCallSubject(group, call.RunID):
		return bad("runId", call.RunID, "the run of the subject")
	case call.CallID.Run() != call.RunID || crumbs.CheckCallID(call.CallID) != nil:
		return bad("callId", call.CallID, "a call of run "+string(call.RunID))
	case call.Attempt < 1:
		return bad("attempt", call.Attempt, "1 or more")
	case call.StartBefore.IsZero():
		return bad("startBefore", `""`, "a time")
	case call.DeadlineAt.IsZero():
		return bad("deadlineAt", `""`, "a time")
	case call.Kind == crumbs.KindHook && (call.Hook == nil || call.Hook.Name == ""):
		return bad("hook", "absent", "the name and the point of the hook")
	case call.TimeoutMs < 0 || call.IdleTimeoutMs < 0:
		return bad("timeoutMs", call.TimeoutMs, "no negative duration")
	}
	return crumbs.CheckAgentID(string(call.AgentID))
}

// known reports whether a worker runs calls of a kind.
func known(kind string) bool {
	return kind == crumbs.KindTool || kind == crumbs.KindHook || kind == crumbs.KindParse
}

// wanted is what a call is for.
func wanted(call crumbs.ToolCall) handler {
	h := handler{name: call.Handler}
	if call.Kind != crumbs.KindTool {
		h.kind = agent.Announced(call.Kind)
	}
	return h
}

// effectOf is the effect of a call; what is not known is once, the safe one.
func effectOf(call crumbs.ToolCall) crumbs.Effect {
	switch call.Effect {
	case crumbs.EffectPure, crumbs.EffectIdempotent:
		return call.Effect
	}
	return crumbs.EffectOnce
}

// void reports whether a call may not start any more.
func void(call crumbs.ToolCall, now time.Time) bool {
	return !now.Before(call.StartBefore.Time) || !now.Before(call.DeadlineAt.Time)
}
