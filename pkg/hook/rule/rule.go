package rule

import (
	"encoding/json"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// DelayMax bounds the wait before an attempt, whatever a rule or a provider asks for.
const DelayMax = 5 * time.Minute

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
// are used up the last error stands, whatever a hook says (one-system b-24).
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
