package rule_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/hook/rule"
)

func TestDelay_CF_R08_CF_R09_GrowsAndIsBounded(t *testing.T) {
	t.Parallel()
	r := rule.Retry{Attempts: 9, BackoffMs: 500, Multiplier: 2}
	for n, want := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
		if got := r.Delay(n+1, nil); got != want {
			t.Errorf("after failure %d: %v, want %v", n+1, got, want)
		}
	}
	if got := r.Delay(1, &fault.Error{RetryAfterMs: 2000}); got != 2*time.Second {
		t.Errorf("asked for 2 s: %v", got)
	}
	if got := r.Delay(1, &fault.Error{RetryAfterMs: 999_999_000}); got != rule.DelayMax {
		t.Errorf("asked for 999,999 s: %v, want %v", got, rule.DelayMax)
	}
}

func TestResolve_CF_R01_CF_R04_CF_R05_CF_R06(t *testing.T) {
	t.Parallel()
	cause := fault.New(fault.ToolError, "no")
	three := &rule.Retry{Attempts: 3, BackoffMs: 500, Multiplier: 2}
	recovered := crumbs.HookAnswer{Action: crumbs.HookRecover, Output: json.RawMessage(`[]`)}
	retry := crumbs.HookAnswer{Action: crumbs.HookRetry}
	fail := crumbs.HookAnswer{Action: crumbs.HookFail, Error: fault.New(fault.ToolDenied, "replaced")}
	for _, c := range []struct {
		name    string
		failure rule.Failure
		answer  crumbs.HookAnswer
		want    string
	}{
		{"no rule, no opinion", rule.Failure{Attempt: 1}, crumbs.HookAnswer{}, "no"},
		{"no rule, retry", rule.Failure{Attempt: 1}, retry, "again 0s"},
		{"no rule, retry twice", rule.Failure{Attempt: 2, Repeated: true}, retry, "no"},
		{"no rule, recover after the one retry", rule.Failure{Attempt: 2, Repeated: true}, recovered, "[]"},
		{"no rule, recover", rule.Failure{Attempt: 1}, recovered, "[]"},
		{"rule, no opinion", rule.Failure{Attempt: 1, Retry: three}, crumbs.HookAnswer{}, "again 500ms"},
		{"rule, retry", rule.Failure{Attempt: 2, Retry: three}, retry, "again 1s"},
		{"rule, fail", rule.Failure{Attempt: 1, Retry: three}, fail, "replaced"},
		{"rule, recover", rule.Failure{Attempt: 1, Retry: three}, recovered, "[]"},
		{"used up, no opinion", rule.Failure{Attempt: 3, Retry: three}, crumbs.HookAnswer{}, "no"},
		{"used up, retry", rule.Failure{Attempt: 3, Retry: three}, retry, "no"},
		{"used up, recover", rule.Failure{Attempt: 3, Retry: three}, recovered, "no"},
		{"used up, fail", rule.Failure{Attempt: 3, Retry: three}, fail, "no"},
		{"one attempt", rule.Failure{Attempt: 1, Retry: &rule.Retry{Attempts: 1}}, recovered, "no"},
		{"none", rule.Failure{Attempt: 1, Retry: &rule.Retry{}}, crumbs.HookAnswer{}, "no"},
	} {
		c.failure.Cause = cause
		v, got := rule.Resolve(c.failure, c.answer), ""
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
