package hook_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/hook"
)

func TestRead_KnowsTheAnswersOfEachPoint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ point, answer, action string }{
		{crumbs.HookBeforeRun, `null`, ""},
		{crumbs.HookBeforeRun, ``, ""},
		{crumbs.HookBeforeRun, `{}`, ""},
		{crumbs.HookBeforeRun, `{"action":"continue","input":null}`, "continue"},
		{crumbs.HookBeforeRun, `{"action":"shortCircuit","output":null}`, "shortCircuit"},
		{crumbs.HookAfterRun, `{"output":null}`, "replace"},
		{crumbs.HookAfterRun, `{"action":"replace","output":3}`, "replace"},
		{crumbs.HookOnError, `{"action":"recover","output":[]}`, "recover"},
		{crumbs.HookOnError, `{"action":"retry"}`, "retry"},
		{crumbs.HookOnError, `{"action":"fail","error":{"code":"TOOL_ERROR","message":"no"}}`, "fail"},
		{crumbs.HookOnSuspend, `{"action":"retry"}`, ""}, // observes only
	} {
		if a, err := hook.Read(c.point, json.RawMessage(c.answer)); err != nil || a.Action != c.action {
			t.Errorf("%s %s: %q, %v, want %q", c.point, c.answer, a.Action, err, c.action)
		}
	}
	for _, c := range []struct{ point, answer string }{
		{crumbs.HookBeforeRun, `{"action":"continue"}`},
		{crumbs.HookBeforeRun, `{"action":"retry"}`},
		{crumbs.HookBeforeRun, `{"input":1}`}, // an input without saying what for
		{crumbs.HookBeforeRun, `[1]`},
		{crumbs.HookAfterRun, `{"action":"recover","output":1}`},
		{crumbs.HookOnError, `{"action":"recover"}`},
		{crumbs.HookOnError, `{"action":"fail"}`},
		{crumbs.HookOnError, `{"action":"skip"}`},
	} {
		if a, err := hook.Read(c.point, json.RawMessage(c.answer)); fault.CodeOf(err) != fault.HookError {
			t.Errorf("%s %s: %+v, %v, want HOOK_ERROR", c.point, c.answer, a, err)
		}
	}
}

func TestDelay_CF_R08_CF_R09_GrowsAndIsBounded(t *testing.T) {
	t.Parallel()
	r := hook.Rule{Attempts: 9, BackoffMs: 500, Multiplier: 2}
	for n, want := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
		if got := r.Delay(n+1, nil); got != want {
			t.Errorf("after failure %d: %v, want %v", n+1, got, want)
		}
	}
	if got := r.Delay(1, &fault.Error{RetryAfterMs: 2000}); got != 2*time.Second {
		t.Errorf("asked for 2 s: %v", got)
	}
	if got := r.Delay(1, &fault.Error{RetryAfterMs: 999_999_000}); got != hook.DelayMax {
		t.Errorf("asked for 999,999 s: %v, want %v", got, hook.DelayMax)
	}
}

func TestResolve_CF_K13_CF_R01_CF_R04_CF_R05_CF_R06(t *testing.T) {
	t.Parallel()
	cause := fault.New(fault.ToolError, "no")
	three := &hook.Rule{Attempts: 3, BackoffMs: 500, Multiplier: 2}
	recovered := crumbs.HookAnswer{Action: crumbs.HookRecover, Output: json.RawMessage(`[]`)}
	retry := crumbs.HookAnswer{Action: crumbs.HookRetry}
	fail := crumbs.HookAnswer{Action: crumbs.HookFail, Error: fault.New(fault.ToolDenied, "replaced")}
	for _, c := range []struct {
		name    string
		failure hook.Failure
		answer  crumbs.HookAnswer
		want    string
	}{
		{"no rule, no opinion", hook.Failure{Attempt: 1}, crumbs.HookAnswer{}, "no"},
		{"no rule, retry", hook.Failure{Attempt: 1}, retry, "again 0s"},
		{"no rule, retry twice", hook.Failure{Attempt: 2, Repeated: true}, retry, "no"},
		{"no rule, recover after the one retry", hook.Failure{Attempt: 2, Repeated: true}, recovered, "[]"},
		{"no rule, recover", hook.Failure{Attempt: 1}, recovered, "[]"},
		{"rule, no opinion", hook.Failure{Attempt: 1, Rule: three}, crumbs.HookAnswer{}, "again 500ms"},
		{"rule, retry", hook.Failure{Attempt: 2, Rule: three}, retry, "again 1s"},
		{"rule, fail", hook.Failure{Attempt: 1, Rule: three}, fail, "replaced"},
		{"rule, recover", hook.Failure{Attempt: 1, Rule: three}, recovered, "[]"},
		{"used up, no opinion", hook.Failure{Attempt: 3, Rule: three}, crumbs.HookAnswer{}, "no"},
		{"used up, retry", hook.Failure{Attempt: 3, Rule: three}, retry, "no"},
		{"used up, recover", hook.Failure{Attempt: 3, Rule: three}, recovered, "no"},
		{"used up, fail", hook.Failure{Attempt: 3, Rule: three}, fail, "no"},
		{"one attempt", hook.Failure{Attempt: 1, Rule: &hook.Rule{Attempts: 1}}, recovered, "no"},
		{"none", hook.Failure{Attempt: 1, Rule: &hook.Rule{}}, crumbs.HookAnswer{}, "no"},
	} {
		c.failure.Cause = cause
		v, got := hook.Resolve(c.failure, c.answer), ""
		switch {
		case v.Again:
			got = "again " + v.Delay.String()
		case v.Fail != nil:
			got = v.Fail.Message
		default:
			got = string(v.Recover)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
