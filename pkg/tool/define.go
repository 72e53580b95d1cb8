package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Define declares a tool that answers with one value. In is a struct (or a map)
// that the arguments are decoded into, Out anything encoding/json writes.
func Define[In, Out any](name, description string, f func(Context, In) (Out, error), opts ...Option) Tool {
	h := func(ctx Context, args json.RawMessage, _ Yield) (json.RawMessage, error) {
		in, err := decode[In](args)
		if err != nil {
			return nil, err
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		return encode(toolProduct, out)
	}
	return declare[In](name, description, h, f == nil, false, opts)
}

// DefineStream declares a tool that yields values as it goes: each is a partial
// that watchers see at once, the last one is the result, none at all is the
// result null (CF-S01, CF-S04). An error ends the call (CF-S05); the partials
// before it stay.
func DefineStream[In, Out any](name, description string, f func(Context, In) iter.Seq2[Out, error], opts ...Option) Tool {
	h := func(ctx Context, args json.RawMessage, yield Yield) (json.RawMessage, error) {
		in, err := decode[In](args)
		if err != nil {
			return nil, err
		}
		last := json.RawMessage("null")
		for out, err := range f(ctx, in) {
			if err != nil {
				return nil, err
			}
			if last, err = encode(toolProduct, out); err != nil {
				return nil, err
			}
			if err = yield(last); err != nil {
				return nil, err
			}
		}
		return last, nil
	}
	return declare[In](name, description, h, f == nil, true, opts)
}

// declare infers the schema unless an option gives one.
func declare[In any](name, description string, h Handler, noFunction, stream bool, opts []Option) Tool {
	t := Tool{handlerName: name, description: description, handler: h, stream: stream, effect: crumbs.EffectOnce}
	given := Tool{}
	for _, o := range opts {
		_ = o(&given) // only to see whether a schema is given; complete reports errors
	}
	if given.schemaRaw == nil {
		t.schemaRaw, t.err = infer(reflect.TypeFor[In]())
	}
	t.complete(noFunction, opts)
	return t
}

// decode reads checked arguments. A schema that is wider than In shows here.
func decode[In any](args json.RawMessage) (In, error) {
	var in In
	err := json.Unmarshal(args, &in)
	if err == nil {
		return in, nil
	}
	// encoding/json names Go types; the model could not use that (F052).
	var te *json.UnmarshalTypeError
	if errors.As(err, &te) && te.Field != "" {
		return in, fault.Wrap(fault.InvalidArguments, err, "%s cannot be %s: the tool expects another type", te.Field, article(te.Value))
	}
	return in, fault.Wrap(fault.InvalidArguments, err, "the arguments do not fit what the tool expects")
}

func article(kind string) string {
	switch kind {
	case "array", "object":
		return "an " + kind
	}
	return "a " + kind
}

func encode(what string, v any) (json.RawMessage, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fault.Wrap(fault.ToolResultInvalid, err, "%s cannot be written as JSON: %s", what, clip(fmt.Sprint(err), ErrorMax))
	}
	return b, nil
}
