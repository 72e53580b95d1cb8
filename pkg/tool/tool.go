package tool

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// DescriptionMax is the longest description of a tool, in bytes: every model
// call of a run repeats it.
const DescriptionMax = 4096

// Yield hands one partial of a streaming tool on. An error means that nobody
// takes more: the handler returns it.
type Yield func(json.RawMessage) error

// Handler runs one call. Its arguments fit the tool's schema; only a streaming
// tool may use yield, and its result is then the last value yielded.
type Handler func(ctx Context, args json.RawMessage, yield Yield) (json.RawMessage, error)

// Tool is a declared tool, or what a worker serves like one: a hook, a parser, a
// question. The zero value is none: use Define, DefineStream, New, DefineParser,
// DefineHuman or hook.Register. A Tool is immutable and may run many calls at once.
type Tool struct {
	kind        agent.Announced
	points      []string    // of a hook
	human       agent.Human // of a question
	handlerName string
	description string
	schemaRaw   json.RawMessage
	outputRaw   json.RawMessage
	digest      string
	schema      *argument.Schema // of the arguments; nil for a hook and a parser, whose args are the mesh's
	output      *argument.Schema // of the result; nil: any
	effect      crumbs.Effect
	timeout     time.Duration
	idleTimeout time.Duration
	stream      bool
	ready       func(Context) error
	handler     Handler
	err         *fault.Error
}

// New declares a tool with a handler of raw JSON; Schema gives its arguments
// (any object when absent). The name is snake_case, or `<agent>/<name>` for a
// program of an agent's folder.
func New(name, description string, h Handler, opts ...Option) Tool {
	t := Tool{handlerName: name, description: description, handler: h, effect: crumbs.EffectOnce}
	t.complete(h == nil, opts)
	return t
}

// complete applies the options and checks the whole; what is wrong goes to t.err.
func (t *Tool) complete(noFunction bool, opts []Option) {
	var faults []error
	for _, o := range opts {
		faults = append(faults, o(t))
	}
	if t.kind == agent.AnnouncedTool {
		faults = append(faults, checkHandlerName(t.handlerName), t.checkDescription())
	} else {
		faults = append(faults, t.Announcement(agent.DefaultGroup).Check())
	}
	if noFunction {
		faults = append(faults, fault.New(fault.InvalidConfig, "the %s has no function", t.noun()))
	}
	if t.idleTimeout > 0 && !t.stream {
		faults = append(faults, fault.New(fault.InvalidConfig, "IdleTimeout(%v): the tool does not stream; use Timeout, or DefineStream", t.idleTimeout))
	}
	if t.err == nil {
		faults = append(faults, t.compile())
	} else {
		faults = append(faults, t.err)
	}
	t.err = declaration(t.noun(), t.handlerName, faults)
}

func (t *Tool) checkDescription() error {
	if n := len(strings.TrimSpace(t.description)); n == 0 || n > DescriptionMax {
		return fault.New(fault.InvalidConfig, "the description has %d bytes: expected 1 to %d", n, DescriptionMax)
	}
	return nil
}

func (t *Tool) compile() error {
	if t.kind == agent.AnnouncedHook || t.kind == agent.AnnouncedParse {
		return nil
	}
	s, err := argument.Compile(t.schemaRaw)
	if err != nil {
		return err
	}
	t.schema = s
	if len(t.outputRaw) == 0 {
		return nil
	}
	t.output, err = argument.Compile(t.outputRaw)
	return err
}

// checkHandlerName takes `name` and `<agent>/<name>`.
func checkHandlerName(s string) error {
	agentID, name, ok := strings.Cut(s, "/")
	if !ok {
		return crumbs.CheckName("tool", s)
	}
	if err := crumbs.CheckAgentID(agentID); err != nil {
		return err
	}
	return crumbs.CheckName("tool", name)
}

// declaration is the one fault of a declaration: the first one's code, all
// messages, in the order of the checks.
func declaration(noun, name string, faults []error) *fault.Error {
	var messages []string
	var code fault.Code
	for _, err := range faults {
		if err == nil {
			continue
		}
		f := fault.From(err)
		if code == "" {
			code = f.Code
		}
		messages = append(messages, f.Message)
	}
	if code == "" {
		return nil
	}
	return fault.New(code, "%s %q: %s", noun, name, strings.Join(messages, "; ")).With("tool", name)
}

// Err is what is wrong with the declaration: INVALID_NAME or INVALID_CONFIG
// naming every mistake, nil when the tool can be served.
func (t Tool) Err() error {
	if t.err == nil {
		return nil
	}
	return t.err
}

// Name is the name a worker registers the tool under (the wire's `handler`).
func (t Tool) Name() string { return t.handlerName }

// Effect is what the tool declares, once by default.
func (t Tool) Effect() crumbs.Effect { return t.effect }

// Streams reports whether the tool yields partials.
func (t Tool) Streams() bool { return t.stream }

// Check returns INVALID_ARGUMENTS unless args fit the tool's schema. Those of a hook
// and of a parser are the mesh's own and checked when they are read. Defaults
// are not filled in here: that happens once, before a call is dispatched.
func (t Tool) Check(args json.RawMessage) error {
	if t.err != nil {
		return t.err
	}
	if t.schema == nil {
		return nil
	}
	return t.schema.Check(fault.InvalidArguments, args)
}

// Ready asks what the tool needs beside its arguments; see the option Ready.
func (t Tool) Ready(ctx Context) error {
	if t.err != nil {
		return t.err
	}
	if t.ready == nil {
		return nil
	}
	return t.ready(ctx)
}

// Prepare returns args as the mesh would dispatch them: absent ones are {},
// defaults are filled in, the whole is checked. It is for callers that run a
// tool without a mesh.
func (t Tool) Prepare(args json.RawMessage) (json.RawMessage, error) {
	if t.err != nil {
		return nil, t.err
	}
	if t.schema == nil {
		return args, nil
	}
	doc, err := argument.Normalize(args)
	if err != nil {
		return nil, err
	}
	if doc, err = t.schema.Fill(doc); err != nil {
		return nil, err
	}
	return doc, t.Check(doc)
}

// Run executes one call and returns its result. yield takes the partials of a
// streaming tool, in order and never after Run returned; nil drops them.
//
// A fault of the handler keeps its code. Any other error is TOOL_ERROR with the
// error's message, a panic or runtime.Goexit is TOOL_ERROR too (F043). A limit
// that fired is TOOL_TIMEOUT naming both limits (F037, F038), a cancellation
// TOOL_CANCELLED; a handler that had returned before that is not affected. A
// result that does not fit the output schema is TOOL_OUTPUT_INVALID, though its
// effect has happened; an answer of a hook that its point does not know is
// HOOK_ERROR, and so is every error of a hook that has no code. A
// result that cannot be written as JSON, or is nested deeper than DepthMax, is
// TOOL_RESULT_INVALID, of a hook HOOK_ERROR, one over ResultMax PAYLOAD_TOO_LARGE, arguments outside
// the schema INVALID_ARGUMENTS; a partial is refused like a result.
//
// Results, partials and errors have the names of the call's secrets in their
// places (Context.Conceal), arguments are the handler's as they came.
func (t Tool) Run(ctx Context, args json.RawMessage, yield Yield) (json.RawMessage, error) {
	if err := t.Check(args); err != nil {
		return nil, err
	}
	if err := t.called(ctx); err != nil {
		return nil, err
	}
	if ctx.Context == nil {
		ctx.Context = context.Background()
	}
	if ctx.Files == nil {
		ctx.Files = MemoryFiles(ctx.RunID)
	}
	if ctx.Logger == nil {
		ctx.Logger = slog.New(slog.DiscardHandler)
	}
	return newExecution(t, ctx, yield).run(args)
}

// ErrorMax is how much of an error's message a fault keeps, in bytes.
const ErrorMax = 4096

// failure is err as the wire has it: a fault stays, anything else is TOOL_ERROR
// with the error's message (bread T14), masked before it is cut: half a secret
// would not be found.
func (x *execution) failure(err error) *fault.Error {
	var f *fault.Error
	if errors.As(err, &f) && f != nil {
		return f
	}
	return fault.Wrap(x.tool.errorCode(), err, "%s", clip(x.ctx.Secrets.Masker().Text(err.Error()), ErrorMax)).With("toolName", x.ctx.ToolName)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
