package core

import (
	"encoding/json"
	"strconv"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Command is a rendered intent.
type Command struct {
	Subject     string
	Type        string
	MessageID   string // ce-id, and Nats-Msg-Id of queued commands
	Body        json.RawMessage
	StartBefore crumbs.Time // void after it; zero = never
	FireAt      crumbs.Time // timers: when the server delivers it
	Target      string      // timers: where
	Core        bool        // not stored: core NATS
}

// Loader reads a blob by name; contents never change, so rendering stays pure.
type Loader func(name string) ([]byte, error)

// Render makes the command of an intent of s.Outbox. It fails only when the
// loader does. ok is false when the intent is void: its call was settled by now.
func Render(p Pinned, s State, in Intent, load Loader) (cmd Command, ok bool, err error) {
	switch in.Kind {
	case SendModel:
		return renderModel(p, s, in)
	case SendTool:
		return renderTool(p, s, in, load)
	case SendErrand:
		return renderErrand(p, s, in, load)
	case SetTimer:
		due := crumbs.TimerDue{Type: crumbs.TypeTimerDue, RunID: s.Run.ID, V: in.V, At: in.At}
		cmd = Command{Subject: crumbs.TimerSetSubject(s.Run.ID, in.V), Target: crumbs.TimerDueSubject(s.Run.ID, in.V), FireAt: in.At,
			Type: due.Type, MessageID: string(s.Run.ID) + "." + strconv.FormatUint(in.V, 10)}
		return withBody(cmd, due)
	case SendCancel:
		c := crumbs.CtlCancel{Type: crumbs.TypeCtlCancel, RunID: s.Run.ID, CallIDs: in.Calls}
		return withBody(Command{Subject: crumbs.CancelSubject(s.Run.ID), Type: c.Type, MessageID: string(s.Run.ID), Core: true}, c)
	}
	panic("core: intent of kind " + string(in.Kind))
}

func renderModel(p Pinned, s State, in Intent) (Command, bool, error) {
	m := s.Model
	if m == nil || m.ID != in.Call || m.Attempt != in.Attempt {
		return Command{}, false, nil
	}
	call := crumbs.ModelCall{Type: crumbs.TypeModelCall, RunID: s.Run.ID, AgentID: s.Run.Agent, SessionID: s.Run.Session, AgentRevision: s.Run.Revision,
		CallID: m.ID, Step: s.Step, Attempt: m.Attempt, N: s.ModelCount, Model: crumbs.Model{Provider: p.Agent.Model.Provider, Model: p.Agent.Model.Model},
		Settings: p.Agent.Model.Settings, ProviderOptions: p.Agent.Model.ProviderOptions, System: p.Agent.System,
		Messages: s.Transcript.Inline, Segments: s.Transcript.Segments, Tools: p.Tools.Specs(), ToolSet: s.Run.ToolSet, Prefix: s.Prefix,
		Output: &crumbs.ModelOutput{Format: formatTextMarkdown}, Deltas: s.Run.Deltas, AfterSeq: s.Seq,
		StartBefore: m.StartBefore, DeadlineAt: crumbs.At(m.Deadline.Add(-p.Timing.Slack).Time)}
	if p.Agent.Output.Format == agent.FormatJSON { // structured generation: no tools, nothing to show before it is whole
		call.Tools, call.Deltas = nil, false
		call.Output = &crumbs.ModelOutput{Format: agent.FormatJSON, Schema: p.Agent.OutputSchema}
	}
	return withBody(Command{Subject: crumbs.ModelCallSubject(p.Agent.Queue(), s.Run.ID), Type: call.Type, MessageID: m.ID.Attempt(m.Attempt), StartBefore: m.StartBefore}, call)
}

func renderTool(p Pinned, s State, in Intent, load Loader) (Command, bool, error) {
	var c *Call
	for i := range s.Calls {
		if s.Calls[i].ID == in.Call && s.Calls[i].Attempt == in.Attempt && s.Calls[i].Phase == Dispatched {
			c = &s.Calls[i]
		}
	}
	if c == nil {
		return Command{}, false, nil
	}
	tool, found := p.Tools.Lookup(c.Leaf)
	if !found {
		panic("core: the pinned tool set lost " + c.Leaf)
	}
	args, err := c.Args.read(load)
	if err != nil {
		return Command{}, false, err
	}
	allowed, err := permission(c, tool, load)
	if err != nil {
		return Command{}, false, err
	}
	call := crumbs.ToolCall{Type: crumbs.TypeToolCall, Kind: crumbs.KindTool, RunID: s.Run.ID, AgentID: s.Run.Agent, SessionID: s.Run.Session, Step: s.Step,
		CallID: c.ID, Attempt: c.Attempt, Tool: tool.PermID, ToolName: tool.Leaf, Handler: tool.Handler, ToolHash: tool.ToolHash, Group: tool.Group,
		Effect: tool.Effect, Args: args, ArgsHash: c.ArgsHash, AfterSeq: s.Seq, StartBefore: c.StartBefore,
		DeadlineAt: crumbs.At(c.Deadline.Add(-p.Timing.Slack).Time), TimeoutMs: timeoutMs(p, tool), IdleTimeoutMs: tool.IdleTimeoutMs,
		Permission: allowed, Context: callContext(s), KeepPartials: tool.KeepPartials}
	return withBody(Command{Subject: crumbs.ToolCallSubject(tool.Group, s.Run.ID), Type: call.Type, MessageID: c.ID.Attempt(c.Attempt), StartBefore: c.StartBefore}, call)
}

func timeoutMs(p Pinned, tool *agent.Entry) int64 {
	if tool.TimeoutMs > 0 {
		return tool.TimeoutMs
	}
	return p.Timing.ToolTimeout.Milliseconds()
}

func permission(c *Call, tool *agent.Entry, load Loader) (crumbs.Permission, error) {
	p := crumbs.Permission{Verdict: crumbs.VerdictAllow, Rule: tool.Rule}
	if c.Approved.IsZero() {
		return p, nil
	}
	signed, err := c.Approved.read(load)
	if err != nil {
		return p, err
	}
	p.Verdict, p.Decision = crumbs.VerdictApproved, new(crumbs.Decision)
	if err := json.Unmarshal(signed, p.Decision); err != nil {
		return p, fault.Wrap(fault.InternalError, err, "the decision on %s does not decode", c.ID)
	}
	return p, nil
}

// read returns a value, from its blob when it is put aside.
func (v Value) read(load Loader) (json.RawMessage, error) {
	if v.Ref == "" {
		return v.Inline, nil
	}
	return load(v.Ref)
}

func callContext(s State) *crumbs.CallContext {
	if s.Run.Principal == nil && s.Run.Goal == "" && len(s.Run.Attachments) == 0 {
		return nil
	}
	return &crumbs.CallContext{Principal: s.Run.Principal, Goal: s.Run.Goal, Attachments: s.Run.Attachments}
}

func withBody(cmd Command, body any) (Command, bool, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return Command{}, false, fault.Wrap(fault.InternalError, err, "command %s does not encode", cmd.Type)
	}
	cmd.Body = b
	return cmd, true, nil
}
