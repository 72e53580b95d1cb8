package tool

import (
	"encoding/json"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// TimeoutMax is the longest limit a tool may ask for.
const TimeoutMax = 24 * time.Hour

// Option sets something of a tool that its function does not say. A wrong value
// shows in Tool.Err as INVALID_CONFIG.
type Option func(*Tool) error

// Effect says what a second execution after a crash would mean; once when not
// given.
func Effect(e crumbs.Effect) Option {
	return func(t *Tool) error {
		switch e {
		case crumbs.EffectPure, crumbs.EffectIdempotent, crumbs.EffectOnce:
			t.effect = e
			return nil
		}
		return fault.New(fault.InvalidConfig, "effect %q: expected pure, idempotent or once", e)
	}
}

// Timeout is the total limit of one execution.
func Timeout(d time.Duration) Option {
	return func(t *Tool) error {
		t.timeout = d
		return checkLimit("Timeout", d)
	}
}

// IdleTimeout is how long a streaming tool may be silent; it is refused on a
// tool that does not stream.
func IdleTimeout(d time.Duration) Option {
	return func(t *Tool) error {
		t.idleTimeout = d
		return checkLimit("IdleTimeout", d)
	}
}

func checkLimit(name string, d time.Duration) error {
	if d >= time.Millisecond && d <= TimeoutMax {
		return nil
	}
	return fault.New(fault.InvalidConfig, "%s(%v): expected between 1ms and %v", name, d, TimeoutMax)
}

// Schema is the JSON Schema of the arguments, instead of the one inferred from
// the struct. It must describe an object.
func Schema(raw json.RawMessage) Option {
	return func(t *Tool) error {
		t.schemaRaw = raw
		return nil
	}
}

// OutputSchema is the JSON Schema of the result. A result that does not fit it ends
// the call with TOOL_OUTPUT_INVALID, here and in the mesh, and its effect has
// happened by then; the partials of a streaming tool are not held to it, only its
// last one.
func OutputSchema(raw json.RawMessage) Option {
	return func(t *Tool) error {
		t.outputRaw = raw
		return nil
	}
}

// Stream marks a tool made by New as streaming: its handler yields partials.
func Stream() Option {
	return func(t *Tool) error {
		t.stream = true
		return nil
	}
}

// Ready is asked after the arguments were checked and before the call counts as
// started: what it refuses, with a fault of its own, never ran. A program
// checks its environment there.
func Ready(f func(Context) error) Option {
	return func(t *Tool) error {
		t.ready = f
		return nil
	}
}

// Digest identifies what the tool runs beyond its declaration, so that another
// version of a program is another tool to the mesh even when all else is equal.
func Digest(digest string) Option {
	return func(t *Tool) error {
		t.digest = digest
		return nil
	}
}
