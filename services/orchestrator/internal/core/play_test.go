package core_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

const (
	playSteps = 40  // things that happen to a run before everybody falls silent
	settleMax = 512 // timers after that until the run must have ended
	turnsMax  = 3   // steps.max of a run, at most
)

// play is a random life of one run: a world of queues around the machine, with
// messages that come twice, late and in any order.
type play struct {
	*machine
	t       *rapid.T
	started map[string]bool // claims that were taken
	revoked map[string]bool
	open    []core.Command // commands nobody has answered
	inbox   []core.Event   // answers, stored and not delivered
	timers  []core.Event   // armed
	past    []core.Event   // delivered
	observe func(played)
}

// played is one delivered event: what Decide got and made of it.
type played struct {
	before core.State
	event  core.Event // whole: with claims and blobs
	after  core.State
	m      *machine
}

func (p played) changed() bool { return p.after.Decision != p.before.Decision }

// live plays a run to its end; observe sees every decision.
func live(t *rapid.T, observe func(played)) *play {
	p := &play{machine: newMachine(), t: t, started: map[string]bool{}, revoked: map[string]bool{}, observe: observe}
	p.pin()
	if rapid.IntRange(0, 9).Draw(t, "cancel first") == 0 {
		p.cancel()
	}
	p.deliver(p.request())
	for range rapid.IntRange(1, playSteps).Draw(t, "steps") {
		p.act()
	}
	p.silence()
	return p
}

// pin draws what else the run pins: hooks, retries, schemas of results, a format.
func (p *play) pin() {
	if rapid.Bool().Draw(p.t, "plain") {
		return
	}
	p.p.Tools.Hooks = p.chains("run", true)
	for i := range p.p.Tools.Entries {
		tool := &p.p.Tools.Entries[i]
		if tool.Kind == agent.KindHuman {
			continue
		}
		tool.Hooks = p.chains(tool.Leaf, false)
		tool.HooksFirst = rapid.Bool().Draw(p.t, "hooks first")
		if rapid.Bool().Draw(p.t, "tool retries") {
			tool.Retry = &agent.Retry{Attempts: rapid.IntRange(0, 3).Draw(p.t, "attempts"), BackoffMs: 500, BackoffMultiplier: 2}
		}
		if rapid.IntRange(0, 4).Draw(p.t, "result schema") == 0 {
			tool.OutputSchema = json.RawMessage(`{"type":["object","boolean"]}`)
		}
		tool.Stream = rapid.IntRange(0, 4).Draw(p.t, "streams") == 0
		tool.KeepPartials = tool.Stream
	}
	switch rapid.IntRange(0, 5).Draw(p.t, "format") {
	case 0:
		p.p.Agent.Output = agent.Output{Format: agent.FormatJSON, Repair: rapid.IntRange(0, 2).Draw(p.t, "repairs")}
	case 1:
		p.p.Agent.Output.Format, p.p.Agent.OutputSchema = agent.FormatCustom, json.RawMessage(`{"type":["object","boolean"]}`)
		p.p.Tools.Parser = &agent.Parser{Name: "lines", Program: program("scripts", "lines")}
	}
	if rapid.Bool().Draw(p.t, "no retry") {
		p.p.Agent.ErrorHandling.Retry = nil
	}
}

func program(group, name string) agent.Program {
	return agent.Program{Group: group, Handler: name, ToolHash: hexHash, Effect: crumbs.EffectIdempotent, TimeoutMs: 10_000}
}

func (p *play) chains(of string, ofRun bool) *agent.Chains {
	list := func(point string) (hooks []agent.HookEntry) {
		for i := range max(0, rapid.IntRange(-2, 2).Draw(p.t, of+" "+point)) {
			h := agent.HookEntry{Name: fmt.Sprintf("hook_%d", i), Source: "agent", Program: program("hooks", "h"), Advisory: rapid.Bool().Draw(p.t, "advisory")}
			if rapid.IntRange(0, 2).Draw(p.t, "hook retries") == 0 {
				h.Retry = &agent.Retry{Attempts: 2, BackoffMs: 500, BackoffMultiplier: 2}
			}
			hooks = append(hooks, h)
		}
		return hooks
	}
	c := &agent.Chains{BeforeRun: list(crumbs.HookBeforeRun), AfterRun: list(crumbs.HookAfterRun), OnError: list(crumbs.HookOnError)}
	if ofRun {
		c.OnSuspend = list(crumbs.HookOnSuspend)
	}
	return c
}

// said is what a hook answers, mostly something that its point knows.
func (p *play) said(point string) json.RawMessage {
	if rapid.IntRange(0, 2).Draw(p.t, "opinion") == 0 {
		return json.RawMessage(`null`)
	}
	return json.RawMessage(rapid.SampledFrom(map[string][]string{
		crumbs.HookBeforeRun: {`{"action":"continue","input":{"title":"hooked"}}`, `{"action":"continue","input":{"path":"hooked"}}`, `{"action":"continue","input":{}}`,
			`{"action":"shortCircuit","output":{"short":1}}`, `{"action":"retry"}`},
		crumbs.HookAfterRun:  {`{"output":{"replaced":1}}`, `{"action":"replace","output":null}`, `7`},
		crumbs.HookOnError:   {`{"action":"recover","output":{"recovered":1}}`, `{"action":"retry"}`, `{"action":"fail","error":{"code":"TOOL_DENIED","message":"replaced"}}`},
		crumbs.HookOnSuspend: {`null`, `{"action":"fail"}`},
	}[point]).Draw(p.t, "answer"))
}

func (p *play) request() core.Event {
	run := pinnedRun("run_1")
	run.MaxSteps = rapid.IntRange(1, turnsMax).Draw(p.t, "maxSteps")
	e := core.Event{Kind: core.Requested, At: crumbs.At(p.at), Request: &core.Request{Run: run, Input: p.value("input")}}
	switch rapid.IntRange(0, 9).Draw(p.t, "request") {
	case 0:
		e.Request.Run.DeadlineAt = e.At.Add(time.Duration(rapid.IntRange(1, 1200).Draw(p.t, "deadline")) * time.Second)
	case 1:
		e.Request.Refused = fault.New(fault.AgentNotFound, "no such agent")
	}
	return e
}

// act lets one thing happen.
func (p *play) act() {
	switch n := rapid.IntRange(0, 99).Draw(p.t, "act"); {
	case n < 30:
		p.answer()
	case n < 60:
		p.receive()
	case n < 74:
		p.decide()
	case n < 82:
		p.at = p.at.Add(time.Duration(rapid.IntRange(1, 900).Draw(p.t, "wait")) * time.Second)
	case n < 88:
		p.fire()
	case n < 91:
		p.order()
	case n < 96:
		p.again()
	case n < 99:
		p.cancel()
	default:
		p.deliver(core.Event{Kind: core.Broken, At: crumbs.At(p.at), Broken: fault.New(fault.InternalError, "deciding failed")})
	}
}

// silence: nobody answers any more; only timers fire. The run must end.
func (p *play) silence() {
	p.open, p.inbox = nil, nil
	for range settleMax {
		if !p.s.Exists() || p.s.Status.Ended() {
			return
		}
		if len(p.timers) == 0 {
			p.t.Fatalf("the run is %s at step %d and no timer is armed: it hangs", p.s.Status, p.s.Step)
		}
		p.fire()
	}
	p.t.Fatalf("the run is %s at step %d after %d timers: it does not end", p.s.Status, p.s.Step, settleMax)
}

// deliver brings an event to the machine as the worker does.
func (p *play) deliver(e core.Event) {
	p.past = append(p.past, e)
	e.Now, e.Claims = crumbs.At(p.at), map[string]bool{}
	for _, pending := range core.Settles(p.p, p.s, e) {
		if pending.Attempt > 0 {
			p.revoked[pending.Key()] = true
			e.Claims[pending.Key()] = p.started[pending.Key()]
		}
	}
	before := p.s
	changed, err := p.step(e)
	if err != nil {
		p.t.Fatalf("%s: %v", e.Kind, err)
	}
	e.Blobs = p.blobs
	p.observe(played{before: before, event: e, after: p.s, m: p.machine})
	if changed {
		p.send()
	}
}

// send puts the commands of the Outbox where they go.
func (p *play) send() {
	for _, intent := range p.s.Outbox.Intents {
		cmd, ok, err := core.Render(p.p, p.s, intent, p.load)
		if err != nil || !ok {
			p.t.Fatalf("render %+v: %v %v", intent, ok, err)
		}
		switch cmd.Type {
		case crumbs.TypeTimerDue:
			p.timers = append(p.timers, core.Event{Kind: core.TimerDue, At: cmd.FireAt, Timer: &crumbs.TimerDue{Type: crumbs.TypeTimerDue, RunID: p.s.Run.ID, V: intent.V, At: cmd.FireAt}})
		case crumbs.TypeModelCall, crumbs.TypeToolCall:
			p.open = append(p.open, cmd)
		}
	}
}

// answer lets a worker take a command, unless its claim is revoked, and store an
// answer.
func (p *play) answer() {
	if len(p.open) == 0 {
		return
	}
	i := rapid.IntRange(0, len(p.open)-1).Draw(p.t, "command")
	cmd := p.open[i]
	p.open = slices.Delete(p.open, i, i+1)
	if p.revoked[cmd.MessageID] {
		return
	}
	p.started[cmd.MessageID] = true
	if rapid.IntRange(0, 9).Draw(p.t, "worker dies") == 0 {
		return
	}
	e := core.Event{At: crumbs.At(p.at)}
	if cmd.Type == crumbs.TypeModelCall {
		e.Kind, e.Model = core.ModelResult, p.modelTurn(cmd)
	} else {
		e.Kind, e.Result = core.CallResult, p.toolOutcome(cmd)
	}
	p.inbox = append(p.inbox, e)
}

// receive delivers one of the stored answers, in any order.
func (p *play) receive() {
	if len(p.inbox) == 0 {
		return
	}
	i := rapid.IntRange(0, len(p.inbox)-1).Draw(p.t, "message")
	e := p.inbox[i]
	p.inbox = slices.Delete(p.inbox, i, i+1)
	p.deliver(e)
}

// again delivers something that was delivered before.
func (p *play) again() {
	if len(p.past) > 0 {
		p.deliver(p.past[rapid.IntRange(0, len(p.past)-1).Draw(p.t, "again")])
	}
}

func (p *play) cancel() {
	p.deliver(core.Event{Kind: core.Control, At: crumbs.At(p.at), Control: &crumbs.RunControl{Type: crumbs.TypeRunControl, RunID: "run_1", ControlID: "ctl_1", Action: crumbs.ActionCancel}})
}

// order is about an attempt in flight: one that was sent, or one before it. As in
// the worker it gives way to an answer that INBOX holds.
func (p *play) order() {
	var o crumbs.RunOrder
	switch n := rapid.IntRange(0, len(p.s.Calls)).Draw(p.t, "ordered"); {
	case n < len(p.s.Calls) && p.s.Calls[n].Chain != nil:
		o.CallID, o.Attempt = p.s.Calls[n].Chain.ID, p.s.Calls[n].Chain.Attempt
	case n < len(p.s.Calls):
		o.CallID, o.Attempt = p.s.Calls[n].ID, p.s.Calls[n].Attempt
	case p.s.Model != nil:
		o.CallID, o.Attempt = p.s.Model.ID, p.s.Model.Attempt
	case p.s.Chain != nil:
		o.CallID, o.Attempt = p.s.Chain.ID, p.s.Chain.Attempt
	default:
		return
	}
	o.Attempt -= rapid.IntRange(0, 1).Draw(p.t, "stale") / max(1, o.Attempt)
	o.Type, o.RunID, o.OrderID, o.By, o.Reason = crumbs.TypeRunOrder, "run_1", "ord_1", &crumbs.Principal{Issuer: "local", Subject: "ada"}, "ordered"
	switch o.Action = rapid.SampledFrom([]string{crumbs.OrderLost, crumbs.OrderRedrive, crumbs.OrderAnswer}).Draw(p.t, "action"); {
	case o.Action == crumbs.OrderLost:
		o.Error = fault.New(fault.ToolLost, "nobody will take the call")
	case o.Action == crumbs.OrderAnswer && rapid.Bool().Draw(p.t, "fails"):
		o.Error = fault.New(rapid.SampledFrom([]fault.Code{fault.ToolError, fault.OutcomeUnknown}).Draw(p.t, "code"), "said so")
	case o.Action == crumbs.OrderAnswer:
		o.Result = p.value("outcome")
	}
	e := core.Event{Kind: core.Ordered, At: crumbs.At(p.at), Order: &o}
	if !p.overtakes(e) {
		p.deliver(e)
	}
}

// overtakes reports whether INBOX holds an answer that an event would forestall.
func (p *play) overtakes(e core.Event) bool {
	for _, pending := range core.Settles(p.p, p.s, e) {
		if slices.ContainsFunc(p.inbox, func(in core.Event) bool { return answers(in, pending) }) {
			return true
		}
	}
	return false
}

// fire delivers the earliest timer, perhaps late, unless INBOX holds an answer
// that it would overtake.
func (p *play) fire() {
	if len(p.timers) == 0 {
		return
	}
	slices.SortStableFunc(p.timers, func(a, b core.Event) int { return a.At.Compare(b.At.Time) })
	e := p.timers[0]
	if p.at.Before(e.At.Time) {
		p.at = e.At.Time
	}
	if p.overtakes(e) {
		return
	}
	p.timers = p.timers[1:]
	p.deliver(e)
}

func answers(e core.Event, p core.Pending) bool {
	switch e.Kind {
	case core.ModelResult:
		return p.Model && e.Model.CallID == p.Call && e.Model.Attempt == p.Attempt
	case core.CallResult:
		return !p.Model && e.Result.CallID == p.Call && e.Result.Attempt == p.Attempt
	case core.Decided:
		return p.Attempt == 0 && e.Decision.CheckpointID == p.Call
	}
	return false
}

// decide lets a person answer an open question, not always rightly.
func (p *play) decide() {
	var asking []core.Call
	for _, c := range p.s.Calls {
		if c.Phase == core.Asking {
			asking = append(asking, c)
		}
	}
	if len(asking) == 0 {
		return
	}
	c := asking[rapid.IntRange(0, len(asking)-1).Draw(p.t, "question")]
	d := &crumbs.Decision{Type: crumbs.TypeDecision, CheckpointID: c.ID, ToolCallID: c.ID, RunID: "run_1", ArgsHash: c.ArgsHash, By: crumbs.Principal{Issuer: "local", Subject: "ada"},
		Via: "cli", At: crumbs.At(p.at), KeyID: "key_1", Signature: strings.Repeat("c2ln", 21) + "bg",
		Outcome: rapid.SampledFrom([]string{crumbs.DecideApprove, crumbs.DecideApprove, crumbs.DecideReject, crumbs.DecideAnswer, crumbs.DecideAnswer}).Draw(p.t, "outcome")}
	switch {
	case d.Outcome == crumbs.DecideAnswer:
		d.Response = p.value("response")
	case d.Outcome == crumbs.DecideApprove && rapid.IntRange(0, 3).Draw(p.t, "edit") == 0:
		d.Args = json.RawMessage(rapid.SampledFrom([]string{`{"title":"edited"}`, `{"path":"edited"}`, `{"title":7}`}).Draw(p.t, "args"))
	}
	p.inbox = append(p.inbox, core.Event{Kind: core.Decided, At: crumbs.At(p.at), Decision: d})
}

// value is a JSON value: often small, sometimes one that must be a reference.
func (p *play) value(label string) json.RawMessage {
	switch rapid.IntRange(0, 19).Draw(p.t, label) {
	case 0:
		return sized(9000)
	case 1:
		return sized(3000)
	case 2:
		return json.RawMessage(`null`)
	case 3:
		return json.RawMessage(`false`)
	}
	return json.RawMessage(`{"n":` + fmt.Sprint(rapid.IntRange(0, 9).Draw(p.t, label)) + `}`)
}

func (p *play) modelTurn(cmd core.Command) *crumbs.ModelResult {
	var call crumbs.ModelCall
	if err := json.Unmarshal(cmd.Body, &call); err != nil {
		p.t.Fatal(err)
	}
	r := &crumbs.ModelResult{Type: crumbs.TypeModelResult, RunID: call.RunID, CallID: call.CallID, Step: call.Step, Attempt: call.Attempt, Status: crumbs.StatusOK,
		Model: call.Model, FinishReason: rapid.SampledFrom([]string{"", "stop", "length", "tool-calls", "other"}).Draw(p.t, "finish")}
	if rapid.IntRange(0, 5).Draw(p.t, "model fails") == 0 {
		r.Status, r.Error, r.Retryable = crumbs.StatusError, fault.New(fault.ModelError, "provider said no"), rapid.Bool().Draw(p.t, "retryable")
		return r
	}
	r.Usage = &crumbs.Usage{InputTokens: 10, OutputTokens: 1}
	r.Message = &crumbs.Message{Role: crumbs.RoleAssistant}
	if call.Output != nil && call.Output.Format == agent.FormatJSON {
		text := rapid.SampledFrom([]string{`{"a":1}`, `false`, `{"a":`, ``}).Draw(p.t, "json")
		r.Message.Parts = append(r.Message.Parts, crumbs.Part{Type: crumbs.PartText, Text: text})
		return r
	}
	if rapid.Bool().Draw(p.t, "says") {
		r.Message.Parts = append(r.Message.Parts, crumbs.Part{Type: crumbs.PartText, Text: strings.Repeat("ü", rapid.SampledFrom([]int{1, 10, 350, 4500}).Draw(p.t, "text"))})
	}
	n := rapid.IntRange(0, 4).Draw(p.t, "calls")
	if rapid.IntRange(0, 39).Draw(p.t, "many") == 0 {
		n = core.CallsMax + 2
	}
	for range n {
		r.Message.Parts = append(r.Message.Parts, p.part(n))
	}
	return r
}

// part is a call the model asks for.
func (p *play) part(of int) crumbs.Part {
	calls := []crumbs.Part{
		{ToolName: "tool_ping"}, {ToolName: "tool_charge", Args: json.RawMessage(`{"title":"a"}`)}, {ToolName: "tool_publish", Args: json.RawMessage(`{"title":"b"}`)},
		{ToolName: "human_headline", Args: json.RawMessage(`{"draft":"c"}`)}, {ToolName: "tool_word_count", Args: json.RawMessage(`{"path":` + string(sized(7000)) + `}`)},
		{ToolName: "tool_purge", Args: json.RawMessage(`null`)}, {ToolName: "nosuch"}, {ToolName: "tool_charge", Args: json.RawMessage(`{"title":1}`)},
		{ToolName: strings.Repeat("ü", 50)}, {ToolName: "tool_purge", Args: json.RawMessage(`"{\"path\":tr"`)}}
	if of > playSteps {
		calls = calls[:5] // many: mostly such as are sent
	}
	part := calls[rapid.IntRange(0, len(calls)-1).Draw(p.t, "call")]
	part.Type = crumbs.PartToolCall
	return part
}

func (p *play) toolOutcome(cmd core.Command) *crumbs.ToolResult {
	var call crumbs.ToolCall
	if err := json.Unmarshal(cmd.Body, &call); err != nil {
		p.t.Fatal(err)
	}
	r := &crumbs.ToolResult{Type: crumbs.TypeToolResult, RunID: call.RunID, CallID: call.CallID, Attempt: call.Attempt, Group: call.Group, Worker: "w1", Delivery: 1, DurationMs: 5,
		Status: rapid.SampledFrom([]string{crumbs.StatusOK, crumbs.StatusOK, crumbs.StatusOK, crumbs.StatusError, crumbs.StatusUnknown, crumbs.StatusCancelled}).Draw(p.t, "status")}
	switch r.Status {
	case crumbs.StatusOK:
		switch r.Result = p.value("result"); {
		case call.Hook != nil:
			r.Result = p.said(call.Hook.Point)
		case call.KeepPartials:
			r.Partials = []json.RawMessage{p.value("partial"), r.Result}
		}
	case crumbs.StatusError:
		r.Error = fault.New(fault.ToolError, "the tool said no")
	}
	return r
}
