package rule

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// DelayMax bounds the wait before an attempt, whatever a rule or a provider asks for.
const DelayMax = 5 * time.Minute

// Read is what a hook answered at a point: the result of its call. An answer that
// says nothing has no Action. It fails with HOOK_ERROR, saying what was expected,
// for one that its point does not know.
func Read(point string, result json.RawMessage) (crumbs.HookAnswer, error) {
	var a crumbs.HookAnswer
	text := bytes.TrimSpace(result)
	if len(text) == 0 || string(text) == "null" || string(text) == `""` {
		return a, nil
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fault.Wrap(fault.HookError, err, "the answer of a hook is null or an object with an action; schemas/hook.answer.v1.json describes it")
	}
	if point == crumbs.HookOnSuspend {
		return crumbs.HookAnswer{}, nil // it only observes
	}
	if a.Action == "" && point == crumbs.HookAfterRun && len(a.Output) > 0 {
		a.Action = crumbs.HookReplace
	}
	if a.Action == "" && len(a.Input)+len(a.Output) == 0 && a.Error == nil {
		return a, nil
	}
	return a, fits(point, a)
}

// fits checks that an answer is one of its point and whole.
func fits(point string, a crumbs.HookAnswer) error {
	var want string
	switch point + " " + a.Action {
	case "beforeRun continue":
		if len(a.Input) > 0 {
			return nil
		}
		want = "continue has an input"
	case "beforeRun shortCircuit", "afterRun replace", "onError recover":
		if len(a.Output) > 0 {
			return nil
		}
		want = a.Action + " has an output; null is a value"
	case "onError retry":
		return nil
	case "onError fail":
		if a.Error != nil && a.Error.Code != "" {
			return nil
		}
		want = "fail has an error {code, message}"
	default:
		want = map[string]string{
			crumbs.HookBeforeRun: "the action continue or shortCircuit",
			crumbs.HookAfterRun:  "the action replace, or {output} alone",
			crumbs.HookOnError:   "the action recover, retry or fail",
		}[point]
	}
	return fault.New(fault.HookError, "a hook at %s answers null or: %s; got the action %q", point, want, a.Action)
}

// Retry is errorHandling.retry of what failed.
type Retry struct {
	Attempts   int // executions in all; 0 and 1 mean one
	BackoffMs  int64
	Multiplier float64
}

// Delay is the wait after the n-th failed execution (from 1): BackoffMs times
// Multiplier to the power n-1, not less than what the failure asks for, at most
// DelayMax.
func (r Retry) Delay(n int, cause *fault.Error) time.Duration {
	wait := float64(r.BackoffMs)
	for range n - 1 {
		wait *= r.Multiplier
	}
	if cause != nil {
		wait = max(wait, float64(cause.RetryAfterMs))
	}
	return time.Duration(min(wait, float64(DelayMax.Milliseconds()))) * time.Millisecond
}

// Failure is an execution that failed, and what is known of those before it.
type Failure struct {
	Cause    *fault.Error
	Attempt  int    // number of the execution, from 1
	Retry    *Retry // nil when none is configured
	Repeated bool   // a hook asked for a retry before, and no rule is configured
}

// Verdict is what follows a failure: exactly one of the three.
type Verdict struct {
	Recover json.RawMessage // go on with this output
	Again   bool            // execute once more, after Delay
	Fail    *fault.Error    // give up with this

	Delay time.Duration
}

// Resolve decides what follows a failure after its onError chain gave an answer,
// one without an Action when no hook had an opinion. Once the configured attempts
// are used up the last error stands, whatever a hook says (CF-K13, one-system b-24).
// A retry that only a hook asks for happens once, at once (CF-R04).
func Resolve(f Failure, a crumbs.HookAnswer) Verdict {
	last := Verdict{Fail: f.Cause}
	switch {
	case f.Retry != nil && f.Attempt >= f.Retry.Attempts:
		return last
	case a.Action == crumbs.HookRecover:
		return Verdict{Recover: a.Output}
	case a.Action == crumbs.HookFail:
		return Verdict{Fail: a.Error}
	case f.Retry != nil:
		return Verdict{Again: true, Delay: f.Retry.Delay(f.Attempt, f.Cause)}
	case a.Action == crumbs.HookRetry && !f.Repeated:
		return Verdict{Again: true}
	}
	return last
}
