package core

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/hook/rule"
)

// Chain is the hooks of one point while they are called one after the other, for
// the run or for one of its calls.
type Chain struct {
	Errand
	Point string `json:"point"`
	Place int    `json:"place,omitempty"` // of the hook in flight, from 0

	Input       Value        `json:"input,omitzero"`  // as the hooks so far left it
	Output      Value        `json:"output,omitzero"` // afterRun: as the hooks so far left it
	DurationMs  int64        `json:"durationMs,omitempty"`
	Error       *fault.Error `json:"error,omitempty"`      // onError
	Failure     int          `json:"failure,omitempty"`    // onError: the execution that failed
	Checkpoints Value        `json:"checkpoints,omitzero"` // onSuspend
	By          []string     `json:"by,omitempty"`         // hooks whose answer counted
}

// inline is how many bytes of values stand in the record itself; c may be nil.
func (c *Chain) inline() int {
	if c == nil {
		return 0
	}
	return len(c.Input.Inline) + len(c.Output.Inline) + len(c.Checkpoints.Inline)
}

// chain is the hooks of a point, of the run or of a call.
func chain(p Pinned, point string, call *Call) []agent.HookEntry {
	if p.Tools == nil {
		return nil
	}
	if call == nil {
		return p.Tools.Hooks.At(point)
	}
	tool, ok := p.Tools.Lookup(call.Leaf)
	if !ok {
		return nil
	}
	return tool.Hooks.At(point)
}

// hookOf is the hook in flight of a chain.
func hookOf(p Pinned, c *Chain, call *Call) *agent.HookEntry {
	hooks := chain(p, c.Point, call)
	if c.Place >= len(hooks) {
		return nil
	}
	return &hooks[c.Place]
}

// begin calls the first hook of a chain; there is one.
func (d *decision) begin(c *Chain, call *Call) {
	d.next(c, call, 0)
}

// next calls the hook at a place of the chain.
func (d *decision) next(c *Chain, call *Call, place int) {
	c.Place = place
	count := &d.s.Errands
	if call != nil {
		count = &call.Errands
	}
	*count++
	c.Errand = Errand{ID: crumbs.RunHookCallID(d.s.Run.ID, d.s.Step, *count)}
	if call != nil {
		c.ID = crumbs.HookCallID(call.ID, *count)
	}
	d.send(&c.Errand, hookOf(d.p, c, call).Program)
}

// answered takes the answer of the hook in flight.
func (d *decision) answered(m *mission, result json.RawMessage) {
	if len(result) == 0 {
		result = json.RawMessage("null")
	}
	a, err := crumbs.ReadHookAnswer(m.chain.Point, result)
	switch {
	case err != nil:
		d.hookFailed(m, fault.From(err))
	case a == nil:
		d.pass(m, crumbs.HookAnswer{})
	default:
		d.pass(m, *a)
	}
}

// pass applies an answer and calls the next hook, or ends the chain.
func (d *decision) pass(m *mission, a crumbs.HookAnswer) {
	c := m.chain
	ends := false
	name := hookOf(d.p, c, m.call).Name
	if a.Action != "" {
		c.By = append(slices.Clip(c.By), name)
	}
	switch a.Action {
	case crumbs.HookContinue:
		c.Input = d.value(a.Input)
	case crumbs.HookReplace:
		c.Output = d.value(a.Output)
	case crumbs.HookShortCircuit, crumbs.HookRecover, crumbs.HookRetry, crumbs.HookFail:
		ends = true
	}
	if !ends && c.Place+1 < len(chain(d.p, c.Point, m.call)) {
		d.next(c, m.call, c.Place+1)
		return
	}
	if m.call != nil {
		m.call.Chain = nil
		d.callChainEnded(m.call, c, a, name)
		return
	}
	d.runChainEnded(c, a)
}

// hookFailed repeats the hook as its own rule says; after that its failure is told,
// and ends what it was called for, unless it is advisory.
func (d *decision) hookFailed(m *mission, cause *fault.Error) {
	entry := hookOf(d.p, m.chain, m.call)
	cause = ofHook(entry.Name, cause)
	if r := entry.Retry; r != nil && m.Attempt < r.Attempts {
		wait := rule.Retry{Attempts: r.Attempts, BackoffMs: r.BackoffMs, Multiplier: r.BackoffMultiplier}.Delay(m.Attempt, cause)
		m.RetryAt, m.Deadline = d.now.Add(wait), crumbs.Time{}
		return
	}
	told := &crumbs.HookErrored{Base: d.base(crumbs.TypeHookErrored), Hook: entry.Name, Point: m.chain.Point, Scope: crumbs.ScopeAgent,
		Error: cause, Attempts: m.Attempt, Advisory: entry.Advisory || m.chain.Point == crumbs.HookOnSuspend}
	if m.call != nil {
		told.Scope, told.ToolCallID, told.ToolName = crumbs.ScopeTool, m.call.ID, m.call.Leaf
	}
	d.hooks = append(d.hooks, told)
	switch {
	case told.Advisory:
		d.pass(m, crumbs.HookAnswer{})
	case m.call != nil:
		c := m.call.Chain
		m.call.Chain = nil
		d.callChainBroke(m.call, c, cause)
	default:
		d.runChainBroke(m.chain, cause)
	}
}

// ofHook is a failure as the fault of a hook: one of a code of its own stays.
func ofHook(name string, cause *fault.Error) *fault.Error {
	if !ofWorker(cause.Code) && cause.Code != fault.HookError {
		return cause
	}
	f := fault.New(fault.HookError, "the hook %s failed: %s", name, cause.Message)
	f.RetryAfterMs = cause.RetryAfterMs
	return f
}

// runChainEnded goes on with the run after a chain of its hooks.
func (d *decision) runChainEnded(c *Chain, a crumbs.HookAnswer) {
	if c.Point == crumbs.HookOnSuspend {
		d.noticed()
		return
	}
	d.s.Chain = nil
	switch c.Point {
	case crumbs.HookBeforeRun:
		d.readied(d.load(c.Input), a, c.By)
	case crumbs.HookAfterRun:
		d.s.By = append(slices.Clip(d.s.By), c.By...)
		d.close(d.load(c.Output), d.s.Ending.FinishReason)
	case crumbs.HookOnError:
		if a.Action == crumbs.HookRecover {
			d.s.By = c.By
		}
		d.resolve(a)
	}
}

// runChainBroke ends a run of which a hook failed.
func (d *decision) runChainBroke(c *Chain, cause *fault.Error) {
	d.s.Chain = nil
	switch c.Point {
	case crumbs.HookBeforeRun:
		d.opened(d.load(c.Input), c.By)
	case crumbs.HookOnError:
		d.closeAttempt(nil)
	}
	d.end(Failed, &Result{Error: cause})
}

// hookInput is what the hook in flight is told.
func hookInput(p Pinned, s State, m *mission, load Loader) (in crumbs.HookInput, err error) {
	c := m.chain
	in = crumbs.HookInput{Scope: crumbs.ScopeAgent, DurationMs: c.DurationMs, Error: c.Error, Attempt: c.Failure, Skill: s.Run.Skill}
	if m.call != nil {
		tool, ok := p.Tools.Lookup(m.call.Leaf)
		if !ok {
			panic("core: the pinned tool set lost " + m.call.Leaf)
		}
		in.Scope, in.Skill = crumbs.ScopeTool, ""
		in.Tool, in.ToolName, in.ToolCallID = tool.PermID, tool.Leaf, m.call.ID
	}
	if in.Input, err = c.Input.read(load); err != nil {
		return in, err
	}
	if c.Point == crumbs.HookAfterRun {
		if in.Output, err = c.Output.read(load); err != nil {
			return in, err
		}
	}
	if c.Checkpoints.IsZero() {
		return in, nil
	}
	asked, err := c.Checkpoints.read(load)
	if err != nil {
		return in, err
	}
	if err := json.Unmarshal(asked, &in.Checkpoints); err != nil {
		return in, fault.Wrap(fault.InternalError, err, "the questions of %s do not decode", s.Run.ID)
	}
	return in, nil
}

// notify tells the onSuspend hooks of the questions they have not heard of.
func (d *decision) notify() {
	if d.s.Status != Suspended || len(chain(d.p, crumbs.HookOnSuspend, nil)) == 0 {
		return
	}
	var asked []crumbs.HookCheckpoint
	for i := range d.s.Calls {
		c := &d.s.Calls[i]
		if c.Phase != Asking || c.Question.Told {
			continue
		}
		q := *c.Question
		q.Told = true
		c.Question = &q
		tool, ok := d.p.Tools.Lookup(c.Leaf)
		if !ok {
			panic("core: the pinned tool set lost " + c.Leaf)
		}
		asked = append(asked, crumbs.HookCheckpoint{CheckpointID: c.ID, Kind: q.Kind, ToolName: c.Leaf, Tool: tool.PermID, Args: d.load(c.Args), ExpiresAt: &q.ExpiresAt})
	}
	if len(asked) == 0 {
		return
	}
	if n := len(d.s.Notices); n >= NoticesMax {
		asked = append(d.checkpoints(d.s.Notices[n-1].Checkpoints), asked...)
		d.s.Notices = d.s.Notices[:n-1]
	}
	b, err := json.Marshal(asked)
	if err != nil {
		panic("core: questions do not encode: " + err.Error())
	}
	d.s.Notices = append(d.s.Notices, Chain{Point: crumbs.HookOnSuspend, Input: d.s.Input, Checkpoints: d.value(b)})
	if len(d.s.Notices) == 1 {
		d.begin(&d.s.Notices[0], nil)
	}
}

func (d *decision) checkpoints(v Value) (asked []crumbs.HookCheckpoint) {
	if err := json.Unmarshal(d.load(v), &asked); err != nil {
		panic("core: questions do not decode: " + err.Error())
	}
	return asked
}

// noticed goes on to the next suspension that hooks are told of; a run that ended
// in between waits for the last of them.
func (d *decision) noticed() {
	if d.s.Notices = d.s.Notices[1:]; len(d.s.Notices) > 0 {
		d.begin(&d.s.Notices[0], nil)
		return
	}
	d.s.Notices = nil
	if d.s.Ending != nil && d.s.Ending.Closed {
		d.close(d.load(d.s.Ending.Output), d.s.Ending.FinishReason)
	}
}

// before calls the beforeRun hooks of a call, or goes on with it.
func (d *decision) before(c *Call, tool *agent.Entry, args json.RawMessage) {
	if len(tool.Hooks.At(crumbs.HookBeforeRun)) == 0 {
		d.proceed(c, tool, args)
		return
	}
	c.Phase, c.Chain = Hooking, &Chain{Point: crumbs.HookBeforeRun, Input: c.Args}
	d.begin(c.Chain, c)
}

// proceed sends a call with the arguments its hooks left, or asks first.
func (d *decision) proceed(c *Call, tool *agent.Entry, args json.RawMessage) {
	if tool.HooksFirst && tool.Verdict == agent.VerdictAsk && c.Approved.IsZero() {
		d.ask(c, tool, crumbs.KindApproval, args)
		return
	}
	d.dispatch(c, tool, args)
}

// hooked takes the arguments that the beforeRun hooks of a call left.
func (d *decision) hooked(c *Call, tool *agent.Entry, left json.RawMessage) {
	if len(c.By) == 0 {
		d.proceed(c, tool, left)
		return
	}
	args, err := argument.Normalize(left)
	hash := ""
	if err == nil {
		args, hash, err = settleArgs(tool, args)
	}
	switch {
	case err != nil:
		d.block(c, crumbs.BlockedHook, fault.From(err), left, nil)
	case hash == c.ArgsHash: // the same, if written otherwise: what was asked about is what runs
		d.proceed(c, tool, d.load(c.Args))
	case !c.Approved.IsZero():
		d.block(c, crumbs.BlockedHook, fault.New(fault.ApprovalArgsChanged,
			"the beforeRun hook %s changed the arguments that were approved; `approval: {hooks: before}` in the tool file calls hooks before the question",
			strings.Join(c.By, ", ")), left, nil)
	default:
		c.Args, c.ArgsHash = d.value(args), hash
		d.proceed(c, tool, args)
	}
}

// callChainEnded goes on with a call after a chain of its hooks.
func (d *decision) callChainEnded(c *Call, ended *Chain, a crumbs.HookAnswer, name string) {
	tool, ok := d.p.Tools.Lookup(c.Leaf)
	if !ok {
		panic("core: the pinned tool set lost " + c.Leaf)
	}
	switch ended.Point {
	case crumbs.HookBeforeRun:
		if c.By = ended.By; a.Action == crumbs.HookShortCircuit {
			c.By = ended.By[:len(ended.By)-1]
			d.shortCircuit(c, tool, ended, a.Output, name)
		} else {
			d.hooked(c, tool, d.load(ended.Input))
		}
	case crumbs.HookAfterRun:
		d.settle(c, crumbs.OutcomeOK, d.load(ended.Output))
	case crumbs.HookOnError:
		d.resolveCall(c, tool, a, name)
	}
	d.advance()
}

// shortCircuit gives a call the result of a hook instead of running it.
func (d *decision) shortCircuit(c *Call, tool *agent.Entry, ended *Chain, output json.RawMessage, name string) {
	if args, err := argument.Normalize(d.load(ended.Input)); err == nil {
		c.Args = d.value(args)
	}
	d.results = append(d.results, d.toolCalled(c, tool, d.load(c.Args))) // before its result
	d.succeed(c, tool, &crumbs.ToolResulted{Result: output, Hook: name})
}

// callChainBroke settles a call of which a hook failed.
func (d *decision) callChainBroke(c *Call, broke *Chain, cause *fault.Error) {
	switch broke.Point {
	case crumbs.HookBeforeRun:
		d.block(c, crumbs.BlockedHook, cause, d.load(broke.Input), nil)
	case crumbs.HookAfterRun: // its tool:result is out: the tool did its work
		d.settle(c, crumbs.OutcomeError, errorOutput(cause))
	case crumbs.HookOnError:
		d.settleFailed(c, cause, "")
	}
	d.advance()
}

// halt settles a call whose run stops while hooks have it, or while it waits for its
// next attempt.
func (d *decision) halt(c *Call) {
	halted := c.Chain
	c.Chain = nil
	switch {
	case halted == nil || halted.Point == crumbs.HookOnError:
		d.settleFailed(c, c.Failed.Error, "")
	case halted.Point == crumbs.HookBeforeRun:
		d.block(c, crumbs.BlockedHook, fault.New(fault.ToolCancelled, "the run was stopped before the tool was called"), d.load(halted.Input), nil)
	default:
		d.settle(c, crumbs.OutcomeOK, d.load(halted.Output))
	}
}
