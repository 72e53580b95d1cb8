package tool

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// NewHook declares code that the mesh calls at points of a run or of a tool call,
// with a handler of raw JSON: args are a crumbs.HookInput, the result is a
// crumbs.HookAnswer or null; Context.Hook says which point. Package hook has the
// typed form. Its effect is idempotent unless an option says another. What fits no
// hook (a schema, Stream) shows in Err as INVALID_CONFIG.
func NewHook(name string, points []string, h Handler, opts ...Option) Tool {
	t := Tool{kind: agent.AnnouncedHook, handlerName: name, points: slices.Clone(points), handler: h, effect: crumbs.EffectIdempotent}
	t.complete(h == nil, opts)
	return t
}

// NewParser declares the parser of a custom output format with a handler of raw
// JSON: args are a crumbs.ParseInput, the result is the output of the run.
// DefineParser is the typed form. Its effect is idempotent unless an option says another.
func NewParser(name string, h Handler, opts ...Option) Tool {
	t := Tool{kind: agent.AnnouncedParse, handlerName: name, handler: h, effect: crumbs.EffectIdempotent}
	t.complete(h == nil, opts)
	return t
}

// DefineParser declares the parser of the custom output format `name`: it gets what
// the model said in all steps of a run and returns the run's output. An error of it
// is an error of the run (bread O6).
func DefineParser[Out any](name string, f func(ctx Context, text string) (Out, error), opts ...Option) Tool {
	h := func(ctx Context, args json.RawMessage, _ Yield) (json.RawMessage, error) {
		in, err := decode[crumbs.ParseInput](args)
		if err != nil {
			return nil, err
		}
		out, err := f(ctx, in.Text)
		if err != nil {
			return nil, err
		}
		return encode(parserProduct, out)
	}
	if f == nil {
		h = nil
	}
	return NewParser(name, h, opts...)
}

// Human is what a question to a person has beside its schemas.
type Human struct {
	Prompt  string        // shown above the question
	Expires time.Duration // how long it waits for an answer; a tool file may say another. 0 means agent.DefaultExpiresMs
}

// DefineHuman declares a tool that asks a person: In is what the model says in the
// question, Answer what the person must answer (a struct, a map, a string, a number,
// a boolean, or any). A worker announces it, and an agent's tool file
// brings it in (`worker: {group, tool}`); nobody runs it, so it has no function: the
// question is the call.
func DefineHuman[In, Answer any](name, description string, h Human, opts ...Option) Tool {
	t := Tool{kind: agent.AnnouncedHuman, handlerName: name, description: description,
		human: agent.Human{Prompt: h.Prompt, ExpiresMs: h.Expires.Milliseconds()}}
	given := Tool{}
	for _, o := range opts {
		_ = o(&given)
	}
	if given.schemaRaw == nil {
		t.schemaRaw, t.err = infer(reflect.TypeFor[In]())
	}
	var err *fault.Error
	if t.human.AnswerSchema, err = inferAnswer(reflect.TypeFor[Answer]()); err != nil && t.err == nil {
		t.err = err
	}
	t.handler = unanswerable
	t.complete(false, opts)
	return t
}

// unanswerable is the handler of a question.
func unanswerable(Context, json.RawMessage, Yield) (json.RawMessage, error) {
	return nil, fault.New(fault.NotAvailable, "a question is asked by the mesh and answered by a person; no worker runs it")
}

// Kind is what the tool is to the mesh: a tool, a hook, a parser or a question.
func (t Tool) Kind() agent.Announced { return t.kind }

// Points are the points that a hook is registered for, nil for all else.
func (t Tool) Points() []string { return slices.Clone(t.points) }

// noun is what messages call it.
func (t Tool) noun() string {
	switch t.kind {
	case agent.AnnouncedHook:
		return "hook"
	case agent.AnnouncedParse:
		return "parser"
	}
	return "tool"
}

// What comes out of a call, as messages call it.
const (
	toolProduct   = "the tool's result"
	hookProduct   = "the hook's answer"
	parserProduct = "the parser's output"
)

func (t Tool) product() string {
	switch t.kind {
	case agent.AnnouncedHook:
		return hookProduct
	case agent.AnnouncedParse:
		return parserProduct
	}
	return toolProduct
}

// nonsense is the code of what comes out and is no JSON document that can be kept: no
// point knows such an answer.
func (t Tool) nonsense() fault.Code {
	if t.kind == agent.AnnouncedHook {
		return fault.HookError
	}
	return fault.ToolResultInvalid
}

// errorCode is the code of an error that has none of its own.
func (t Tool) errorCode() fault.Code {
	if t.kind == agent.AnnouncedHook {
		return fault.HookError
	}
	return fault.ToolError
}

// called refuses a call of a hook at a point that it is not registered for.
func (t Tool) called(ctx Context) error {
	if t.kind != agent.AnnouncedHook {
		return nil
	}
	if ctx.Hook == nil {
		return fault.New(fault.InvalidMessage, "the call of hook %q does not say at which point: Context.Hook is nil", t.handlerName)
	}
	if !slices.Contains(t.points, ctx.Hook.Point) {
		return fault.New(fault.HookNotFound, "the hook %q is not registered for %s, only for %s", t.handlerName, ctx.Hook.Point, strings.Join(t.points, ", ")).
			With("point", ctx.Hook.Point)
	}
	return nil
}

// answered checks what came out: of a hook an answer that its point knows, of a tool
// with an output schema a result that fits.
func (t Tool) answered(ctx Context, result json.RawMessage) (json.RawMessage, error) {
	switch {
	case t.kind == agent.AnnouncedHook:
		a, err := crumbs.ReadHookAnswer(ctx.Hook.Point, result)
		if err != nil {
			return nil, err
		}
		if a == nil {
			return json.RawMessage("null"), nil
		}
		return encode(hookProduct, a)
	case t.output != nil:
		if err := t.output.Check(fault.ToolOutputInvalid, result); err != nil {
			return nil, err
		}
	}
	return result, nil
}
