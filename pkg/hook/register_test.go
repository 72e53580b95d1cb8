package hook_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/hook"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// at runs a hook at a point as a worker does.
func at(t *testing.T, h tool.Tool, point string, in crumbs.HookInput) (string, error) {
	t.Helper()
	if err := h.Err(); err != nil {
		t.Fatal(err)
	}
	args, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := h.Run(tool.Context{RunID: "run_1", CallID: "run_1.1.h0", Hook: &crumbs.HookRef{Name: h.Name(), Point: point}}, args, nil)
	return string(answer), err
}

var input = crumbs.HookInput{Scope: crumbs.ScopeAgent, Input: json.RawMessage(`{}`)}

func TestRegister_AnswersOfEachPoint(t *testing.T) {
	t.Parallel()
	h := hook.Register("all", hook.Hooks{
		BeforeRun: func(hook.Context, json.RawMessage) (hook.Before, error) { return hook.ShortCircuit(nil), nil },
		AfterRun: func(_ hook.Context, out json.RawMessage) (hook.After, error) {
			return hook.Replace([]json.RawMessage{out}), nil
		},
		OnError: func(_ hook.Context, cause *fault.Error) (hook.Remedy, error) {
			return hook.Fail(fault.New("REPLACED", "%s", cause.Message)), nil
		},
		OnSuspend: func(hook.Context) error { return nil },
	})
	in := input
	in.Output, in.Error = json.RawMessage(`"out"`), fault.New(fault.ToolError, "no")
	for point, want := range map[string]string{
		crumbs.HookBeforeRun: `{"action":"shortCircuit","output":null}`,
		crumbs.HookAfterRun:  `{"action":"replace","output":["out"]}`,
		crumbs.HookOnError:   `{"action":"fail","error":{"code":"REPLACED","message":"no"}}`,
		crumbs.HookOnSuspend: `null`,
	} {
		if got, err := at(t, h, point, in); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", point, got, err, want)
		}
	}
	a := h.Announcement("hooks")
	if a.Kind != agent.AnnouncedHook || !slices.Equal(a.Points, crumbs.HookPoints()) || a.Effect != crumbs.EffectIdempotent || a.Check() != nil {
		t.Errorf("announced as %+v", a)
	}
}

func TestRegister_ContextSaysWhatItIsCalledFor(t *testing.T) {
	t.Parallel()
	var got hook.Context
	h := hook.Register("seen", hook.Hooks{
		AfterRun:  func(ctx hook.Context, _ json.RawMessage) (hook.After, error) { got = ctx; return hook.After{}, nil },
		OnSuspend: func(ctx hook.Context) error { got = ctx; return nil },
	})
	in := crumbs.HookInput{Scope: crumbs.ScopeTool, Input: json.RawMessage(`{"a":1}`), Output: json.RawMessage(`1`), DurationMs: 1500,
		Tool: "tool:look", ToolName: "tool_look", ToolCallID: "run_1.1.0", Skill: "s"}
	if answer, err := at(t, h, crumbs.HookAfterRun, in); answer != "null" || err != nil {
		t.Fatal(answer, err)
	}
	if got.Scope != "tool" || got.Point != "afterRun" || got.Tool != "tool:look" || got.ToolName != "tool_look" || got.ToolCallID != "run_1.1.0" ||
		got.Skill != "s" || string(got.Input) != `{"a":1}` || got.Duration != 1500*time.Millisecond || got.RunID != "run_1" || got.CallID != "run_1.1.h0" || got.Logger == nil || got.Files == nil {
		t.Errorf("%+v", got)
	}
	in = input
	in.Checkpoints = []crumbs.HookCheckpoint{{CheckpointID: "run_1.1.0", Kind: "approval", Args: json.RawMessage(`{}`)}}
	if _, err := at(t, h, crumbs.HookOnSuspend, in); err != nil || len(got.Checkpoints) != 1 {
		t.Errorf("%+v, %v", got.Checkpoints, err)
	}
}

// Whatever a hook does wrong is its error, with a code; nothing passes for "no
// objection" (F043, F090).
func TestRegister_FailuresAreErrors_F043_F090(t *testing.T) {
	t.Parallel()
	before := func(f func(hook.Context) (hook.Before, error), opts ...tool.Option) tool.Tool {
		return hook.Register("guard", hook.Hooks{BeforeRun: func(ctx hook.Context, _ json.RawMessage) (hook.Before, error) { return f(ctx) }}, opts...)
	}
	for name, c := range map[string]struct {
		h     tool.Tool
		code  fault.Code
		names string
	}{
		"panic": {before(func(hook.Context) (hook.Before, error) { panic("boom") }), fault.HookError, "the hook panicked"},
		"error": {before(func(hook.Context) (hook.Before, error) { return hook.Continue(1), errors.New("no idea") }), fault.HookError, "no idea"},
		"fault": {before(func(hook.Context) (hook.Before, error) { return hook.Before{}, fault.New(fault.ToolDenied, "no") }), fault.ToolDenied, "no"},
		"value": {before(func(hook.Context) (hook.Before, error) { return hook.Continue(func() {}), nil }), fault.HookError, "cannot be written as JSON"},
		"time": {before(func(ctx hook.Context) (hook.Before, error) {
			<-ctx.Done()
			return hook.Before{}, nil
		}, tool.Timeout(time.Millisecond)), fault.ToolTimeout, "the hook ran longer"},
		"goroutine": {before(func(ctx hook.Context) (hook.Before, error) {
			ctx.Go(func() error { panic("boom") })
			return hook.Before{}, nil
		}), fault.HookError, "the hook panicked"},
	} {
		answer, err := at(t, c.h, crumbs.HookBeforeRun, input)
		if fault.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.names) || answer != "" {
			t.Errorf("%s: %s, %v; want %s naming %q", name, answer, err, c.code, c.names)
		}
	}
	h := before(func(hook.Context) (hook.Before, error) { return hook.Before{}, nil })
	if _, err := at(t, h, crumbs.HookAfterRun, input); fault.CodeOf(err) != fault.HookNotFound {
		t.Errorf("a point it has not: %v", err)
	}
	nothing := hook.Register("fail", hook.Hooks{OnError: func(hook.Context, *fault.Error) (hook.Remedy, error) { return hook.Fail(nil), nil }})
	if _, err := at(t, nothing, crumbs.HookOnError, input); fault.CodeOf(err) != fault.HookError {
		t.Errorf("Fail(nil): %v", err)
	}
}

func TestRegister_WrongDeclarationsShowInErr(t *testing.T) {
	t.Parallel()
	ok := hook.Hooks{OnSuspend: func(hook.Context) error { return nil }}
	for name, h := range map[string]tool.Tool{
		"no function": hook.Register("audit", hook.Hooks{}),
		"bad name":    hook.Register("Audit", ok),
		"streams":     hook.Register("audit", ok, tool.Stream()),
		"schema":      hook.Register("audit", ok, tool.Schema(json.RawMessage(`{"type":"object"}`))),
		"timeout":     hook.Register("audit", ok, tool.Timeout(-1)),
	} {
		if err := h.Err(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := hook.Register("audit", ok, tool.Timeout(time.Second), tool.Effect(crumbs.EffectPure)).Err(); err != nil {
		t.Error(err)
	}
}
