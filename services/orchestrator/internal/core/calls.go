package core

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// asked takes one call of the model's answer in this order: known,
// defaults and schema, limits, permission. It returns the part as history keeps it.
func (d *decision) asked(part crumbs.Part) crumbs.Part {
	i := len(d.s.Calls)
	call := Call{ID: crumbs.ToolCallID(d.s.Run.ID, d.s.Step, i), Leaf: part.ToolName, ProviderCallID: part.ProviderCallID, Phase: Settled}
	raw := part.Args
	part.ToolCallID = call.ID
	args, err := argument.Normalize(raw)
	if part.Args = args; err != nil {
		part.Args = json.RawMessage(`{}`) // history holds an object, whatever came
	}
	d.s.Calls = append(d.s.Calls, call)
	c := &d.s.Calls[i]
	tool, known := d.p.Tools.Lookup(part.ToolName)
	switch {
	case i >= CallsMax:
		d.block(c, crumbs.BlockedLimit, fault.New(fault.ToolCallLimit, "at most %d calls a turn are sent; ask for this one again later", CallsMax), raw,
			&crumbs.LimitHit{Name: "callsPerTurn", Value: CallsMax, Count: int64(i + 1)})
	case !known:
		d.block(c, crumbs.BlockedUnknown, unknownTool(d.p.Tools, part.ToolName), raw, nil)
	case err != nil:
		d.block(c, crumbs.BlockedInvalidArgs, withSchema(fault.From(err), tool), raw, nil)
	default:
		d.admit(c, tool, raw, args)
	}
	return part
}

func (d *decision) admit(c *Call, tool *agent.Entry, raw, args json.RawMessage) {
	filled, hash, err := settleArgs(tool, args)
	if err != nil {
		d.block(c, crumbs.BlockedInvalidArgs, withSchema(fault.From(err), tool), raw, nil)
		return
	}
	c.Args, c.ArgsHash = d.value(filled), hash
	switch {
	case tool.Kind == agent.KindHuman:
		d.ask(c, tool, crumbs.KindInput, filled)
	case tool.Verdict == agent.VerdictAsk && !tool.HooksFirst:
		d.ask(c, tool, crumbs.KindApproval, filled)
	default:
		d.before(c, tool, filled)
	}
}

// settleArgs fills defaults in, validates and hashes: once, here, so that the
// question, the crumb, the hash and the execution see the same arguments.
func settleArgs(tool *agent.Entry, args json.RawMessage) (json.RawMessage, string, error) {
	schema, err := tool.Arguments()
	if err != nil {
		return nil, "", err
	}
	filled, err := schema.Fill(args)
	if err != nil {
		return nil, "", err
	}
	if err := schema.Check(fault.InvalidArguments, filled); err != nil {
		return nil, "", err
	}
	hash, err := argument.Hash(filled)
	return filled, hash, err
}

func unknownTool(set *agent.ToolSet, name string) *fault.Error {
	e := fault.New(fault.ToolNotFound, "there is no tool %q", clip(name))
	if near := set.Close(name); len(near) > 0 {
		e.Message += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return e
}

// withSchema shows the model what the tool expects.
func withSchema(e *fault.Error, tool *agent.Entry) *fault.Error {
	if len(tool.Schema) == 0 || len(tool.Schema) > ValueMax {
		return e
	}
	return e.With("schema", tool.Schema)
}

func clip(s string) string { return clipTo(s, crumbs.LeafMax) }

func clipTo(s string, bytesMax int) string {
	if len(s) > bytesMax {
		return strings.ToValidUTF8(s[:bytesMax], "") + "…"
	}
	return s
}

// bounded is a failure told from outside: with a code of the catalogue, and cut to
// what a record and a list of runs can hold.
func bounded(e *fault.Error, otherwise fault.Code) *fault.Error {
	if e == nil {
		return nil
	}
	if e = e.Listed(otherwise); len(e.Message) <= ErrorMax && faultWeight(e) <= 2*ErrorMax {
		return e
	}
	cut := *e
	cut.Message = clipTo(e.Message, ErrorMax)
	if faultWeight(&cut) > 2*ErrorMax {
		cut.Context = map[string]any{"omitted": "the context was too large"}
	}
	return &cut
}

// block settles a call that is never sent.
func (d *decision) block(c *Call, reason string, cause *fault.Error, raw json.RawMessage, limit *crumbs.LimitHit) {
	crumb := &crumbs.ToolBlocked{Base: d.base(crumbs.TypeToolBlocked), ToolCallID: c.ID, ToolName: clip(c.Leaf), Reason: reason, Error: cause, Limit: limit}
	if json.Valid(raw) {
		crumb.Args = raw
	} else if len(raw) > 0 {
		crumb.Args = text(string(raw))
	}
	d.blocked = append(d.blocked, crumb)
	c.Leaf = clip(c.Leaf)
	d.settle(c, crumbs.OutcomeBlocked, errorOutput(cause))
}

// errorOutput is a failure as the model sees it.
func errorOutput(e *fault.Error) json.RawMessage {
	b, err := json.Marshal(map[string]any{"error": map[string]any{"code": e.Code, "message": e.Message, "context": e.Context}})
	if err != nil {
		panic("core: a fault does not encode: " + err.Error())
	}
	return b
}

func (d *decision) settle(c *Call, outcome crumbs.Outcome, output json.RawMessage) {
	c.Phase, c.Outcome, c.Output = Settled, outcome, d.value(output)
	c.Args, c.Question, c.Approved = Value{}, nil, Value{}
	c.By = nil
	c.Chain, c.Failed, c.RetryAt = nil, nil, crumbs.Time{}
}

// dispatch sends a call to its group.
func (d *decision) dispatch(c *Call, tool *agent.Entry, args json.RawMessage) {
	d.attempt(c, tool)
	d.calls = append(d.calls, d.toolCalled(c, tool, args))
}

func (d *decision) toolCalled(c *Call, tool *agent.Entry, args json.RawMessage) *crumbs.ToolCalled {
	return &crumbs.ToolCalled{Base: d.base(crumbs.TypeToolCalled), ToolCallID: c.ID, ToolName: tool.Leaf, Tool: tool.PermID,
		Args: args, Group: tool.Group, Effect: tool.Effect, Hooks: c.By}
}

// attempt sends the next attempt of a call, with its whole time from now.
func (d *decision) attempt(c *Call, tool *agent.Entry) {
	timeout := ms(tool.TimeoutMs)
	if timeout <= 0 {
		timeout = d.p.Timing.ToolTimeout
	}
	c.Phase, c.Attempt, c.SentAt, c.Grace, c.RetryAt = Dispatched, c.Attempt+1, d.now, crumbs.Time{}, crumbs.Time{}
	wait := d.p.Timing.StartBefore
	if tool.StartBeforeMs > 0 {
		wait = ms(tool.StartBeforeMs)
	}
	c.StartBefore = d.now.Add(wait)
	c.Deadline = c.StartBefore.Add(timeout + d.p.Timing.Slack)
	d.intents = append(d.intents, Intent{Kind: SendTool, Call: c.ID, Attempt: c.Attempt})
}

// ask suspends one call until a person answers.
func (d *decision) ask(c *Call, tool *agent.Entry, kind string, args json.RawMessage) {
	expires := d.now.Add(d.questionTime(tool))
	c.Phase, c.Question = Asking, &Question{Kind: kind, AskedAt: d.now, ExpiresAt: expires}
	crumb := &crumbs.HumanRequired{Base: d.base(crumbs.TypeHumanRequired), CheckpointID: c.ID, Kind: kind, ToolCallID: c.ID, ToolName: tool.Leaf,
		Tool: tool.PermID, Args: args, ArgsHash: c.ArgsHash, Schema: orAny(tool.Schema), Rule: tool.Rule, ExpiresAt: &expires, Principal: d.s.Run.Principal}
	if tool.Human != nil {
		crumb.AnswerSchema, crumb.Prompt = tool.Human.AnswerSchema, tool.Human.Prompt
	}
	d.asks = append(d.asks, crumb)
}

func (d *decision) questionTime(tool *agent.Entry) time.Duration {
	if tool.Human != nil && tool.Human.ExpiresMs > 0 {
		return min(ms(tool.Human.ExpiresMs), d.p.Timing.QuestionMax)
	}
	return d.p.Timing.Question
}

func orAny(schema json.RawMessage) json.RawMessage {
	if len(schema) == 0 {
		return json.RawMessage(`{}`)
	}
	return schema
}

// callResult settles a call with what its worker reported.
func (d *decision) callResult(r *crumbs.ToolResult) bool {
	c := d.call(r.CallID)
	if c == nil {
		return d.errandResult(r)
	}
	if c.Phase != Dispatched || r.Attempt != c.Attempt || r.Group != group(d.p, c.Leaf) {
		return false
	}
	tool, ok := d.p.Tools.Lookup(c.Leaf)
	if !ok {
		panic("core: the pinned tool set lost " + c.Leaf)
	}
	d.products(c, tool, r)
	switch outcome, cause := checked(tool, r); outcome {
	case crumbs.OutcomeOK:
		result := r.Result
		if len(result) == 0 {
			result = json.RawMessage("null")
		}
		d.succeed(c, tool, &crumbs.ToolResulted{Result: result, DurationMs: r.DurationMs, Deltas: r.Deltas, Worker: r.Worker, Files: r.Files})
	case crumbs.OutcomeError:
		d.callFailed(c, tool, cause, r)
	default:
		d.settleError(c, outcome, cause, r)
	}
	d.advance()
	return true
}

// products tells of the partial results that the tool keeps, and of its files.
func (d *decision) products(c *Call, tool *agent.Entry, r *crumbs.ToolResult) {
	for i, partial := range r.Partials {
		if !tool.KeepPartials || i >= crumbs.PartialsMax {
			break
		}
		d.results = append(d.results, &crumbs.ResultPartial{DeltaBase: crumbs.DeltaBase{Base: d.base(crumbs.TypeResultPartial), Attempt: r.Attempt, Index: i},
			ToolCallID: c.ID, ToolName: c.Leaf, Result: partial})
	}
	for _, f := range r.Files {
		d.results = append(d.results, &crumbs.FileGenerated{Base: d.base(crumbs.TypeFileGenerated), File: f, ToolCallID: c.ID, ToolName: c.Leaf})
	}
	d.s.Files = append(d.s.Files, r.Files...)
}

// checked is the outcome of an execution: a result outside the tool's outputSchema
// is a failure.
func checked(tool *agent.Entry, r *crumbs.ToolResult) (crumbs.Outcome, *fault.Error) {
	if r.Status != crumbs.StatusOK {
		return reported(r)
	}
	schema, err := tool.Results()
	if err != nil {
		return crumbs.OutcomeError, fault.From(err)
	}
	if schema == nil {
		return crumbs.OutcomeOK, nil
	}
	result := r.Result
	if len(result) == 0 {
		result = json.RawMessage("null")
	}
	if err := schema.Check(fault.ToolOutputInvalid, result); err != nil {
		return crumbs.OutcomeError, fault.From(err)
	}
	return crumbs.OutcomeOK, nil
}

// reported maps what a worker says of a call that did not end ok.
func reported(r *crumbs.ToolResult) (crumbs.Outcome, *fault.Error) {
	cause := bounded(r.Error, fault.ToolError)
	switch r.Status {
	case crumbs.StatusUnknown:
		if cause == nil {
			cause = fault.New(fault.OutcomeUnknown, "whether the effect happened is not known")
		}
		return crumbs.OutcomeUnknown, cause
	case crumbs.StatusCancelled:
		if cause == nil {
			cause = fault.New(fault.ToolCancelled, "the call was stopped")
		}
		return crumbs.OutcomeCancelled, cause
	}
	if cause == nil {
		cause = fault.New(fault.ToolError, "the tool failed without a message")
	}
	return crumbs.OutcomeError, cause
}

// settleError settles a call that was sent and did not end ok; r is nil when no
// worker reported.
func (d *decision) settleError(c *Call, outcome crumbs.Outcome, cause *fault.Error, r *crumbs.ToolResult) {
	crumb := &crumbs.ToolErrored{Base: d.base(crumbs.TypeToolErrored), ToolCallID: c.ID, ToolName: c.Leaf, Attempt: c.Attempt, Error: cause, Outcome: outcome,
		DurationMs: d.since(c.SentAt)}
	if r != nil {
		crumb.DurationMs, crumb.Deltas, crumb.Worker = r.DurationMs, r.Deltas, r.Worker
	}
	d.results = append(d.results, crumb)
	d.settle(c, outcome, errorOutput(cause))
}

func (d *decision) call(id crumbs.CallID) *Call {
	for i := range d.s.Calls {
		if d.s.Calls[i].ID == id {
			return &d.s.Calls[i]
		}
	}
	return nil
}

// decided applies a person's answer to the question it is bound to.
func (d *decision) decided(a *crumbs.Decision) bool {
	c := d.call(a.CheckpointID)
	if c == nil || c.Phase != Asking || a.ArgsHash != c.ArgsHash || d.s.Stop != nil {
		return false
	}
	tool, ok := d.p.Tools.Lookup(c.Leaf)
	if !ok {
		panic(fmt.Sprintf("core: the pinned tool set lost %s", c.Leaf))
	}
	resumed := &crumbs.HumanResumed{Base: d.base(crumbs.TypeHumanResumed), CheckpointID: c.ID, Kind: c.Question.Kind, ToolCallID: c.ID, ToolName: c.Leaf,
		Reason: a.Reason, By: &a.By, WaitedMs: d.since(c.Question.AskedAt)}
	switch {
	case a.Outcome == crumbs.DecideReject:
		d.reject(c, a, resumed)
	case a.Outcome == crumbs.DecideApprove && c.Question.Kind == crumbs.KindApproval:
		if !d.approve(c, tool, a, resumed) {
			return false
		}
	case a.Outcome == crumbs.DecideAnswer && c.Question.Kind == crumbs.KindInput && len(a.Response) > 0:
		resumed.Outcome, resumed.Response = crumbs.ResumedAnswered, a.Response
		d.settle(c, crumbs.OutcomeOK, a.Response)
	default:
		return false // the wrong kind of answer settles nothing: the question stays open
	}
	d.resumed = append(d.resumed, resumed)
	d.advance()
	return true
}

func (d *decision) reject(c *Call, a *crumbs.Decision, resumed *crumbs.HumanResumed) {
	reason := a.Reason
	if reason == "" {
		reason = rejectedByDefault
	}
	resumed.Outcome = crumbs.ResumedRejected
	if c.Question.Kind == crumbs.KindApproval { // a question that is rejected has no value
		resumed.Response = json.RawMessage(`{"approved":false}`)
	}
	denied, err := json.Marshal(map[string]any{"denied": true, "reason": reason})
	if err != nil {
		panic("core: a reason does not encode: " + err.Error())
	}
	d.settle(c, crumbs.OutcomeDenied, denied)
}

// approve sends the call with the arguments that were shown, or with edited ones
// after they passed the same checks.
func (d *decision) approve(c *Call, tool *agent.Entry, a *crumbs.Decision, resumed *crumbs.HumanResumed) bool {
	resumed.Outcome, resumed.Response = crumbs.ResumedApproved, json.RawMessage(`{"approved":true}`)
	args := d.load(c.Args)
	if len(a.Args) > 0 {
		filled, hash, err := settleArgs(tool, a.Args)
		if err != nil {
			return false
		}
		args, resumed.Outcome, resumed.Args = filled, crumbs.ResumedEdited, filled
		c.Args, c.ArgsHash = d.value(filled), hash
	}
	signed, err := json.Marshal(a)
	if err != nil {
		panic("core: a decision does not encode: " + err.Error())
	}
	c.Question, c.Approved = nil, d.value(signed)
	if tool.HooksFirst && len(a.Args) == 0 {
		d.dispatch(c, tool, args) // its hooks saw these arguments
	} else {
		d.before(c, tool, args)
	}
	return true
}

// withdraw closes a question whose run ends before it was answered.
func (d *decision) withdraw(c *Call) {
	d.resumed = append(d.resumed, &crumbs.HumanResumed{Base: d.base(crumbs.TypeHumanResumed), CheckpointID: c.ID, Kind: c.Question.Kind,
		ToolCallID: c.ID, ToolName: c.Leaf, Outcome: crumbs.ResumedWithdrawn, WaitedMs: d.since(c.Question.AskedAt)})
	d.settle(c, crumbs.OutcomeCancelled, errorOutput(fault.New(fault.ToolCancelled, "the question was withdrawn")))
}

// expire closes a question that nobody answered in time; that is not a rejection.
func (d *decision) expire(c *Call) {
	d.resumed = append(d.resumed, &crumbs.HumanResumed{Base: d.base(crumbs.TypeHumanResumed), CheckpointID: c.ID, Kind: c.Question.Kind,
		ToolCallID: c.ID, ToolName: c.Leaf, Outcome: crumbs.ResumedExpired, WaitedMs: d.since(c.Question.AskedAt)})
	d.settle(c, crumbs.OutcomeExpired, errorOutput(fault.New(fault.CheckpointExpired, "nobody answered before %s", c.Question.ExpiresAt.UTC().Format(time.RFC3339))))
}
