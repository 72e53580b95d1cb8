package check

import (
	"fmt"
	"strings"
)

// Count is a history in numbers.
type Count struct {
	Asked, Accepted             int
	Completed, Cancelled, Other int            // runs by their end
	Crumbs                      int            // stored
	Outcomes                    map[string]int // of calls, by outcome
	Approved, Edited, Rejected  int            // questions by their answer
	Executions                  int            // that the sink saw
	Repeated                    int            // beyond the first of their call: idempotent and pure ones
	Restarted                   int            // calls that workers started more than once
	UnknownHappened             int            // unknown calls whose effect had happened
	Unknown                     map[string]int // by what was done while their worker had them
	UnknownCalls                []string       // a line each
}

// Add returns the sum of two counts.
func (c Count) Add(o Count) Count {
	for _, pair := range []struct{ to, from *int }{
		{&c.Asked, &o.Asked}, {&c.Accepted, &o.Accepted}, {&c.Completed, &o.Completed}, {&c.Cancelled, &o.Cancelled}, {&c.Other, &o.Other},
		{&c.Crumbs, &o.Crumbs}, {&c.Approved, &o.Approved}, {&c.Edited, &o.Edited}, {&c.Rejected, &o.Rejected},
		{&c.Executions, &o.Executions}, {&c.Repeated, &o.Repeated}, {&c.Restarted, &o.Restarted}, {&c.UnknownHappened, &o.UnknownHappened},
	} {
		*pair.to += *pair.from
	}
	c.UnknownCalls = append(c.UnknownCalls, o.UnknownCalls...)
	c.Outcomes, c.Unknown = sum(c.Outcomes, o.Outcomes), sum(c.Unknown, o.Unknown)
	return c
}

func sum(a, b map[string]int) map[string]int {
	out := map[string]int{}
	for _, m := range []map[string]int{a, b} {
		for k, n := range m {
			out[k] += n
		}
	}
	return out
}

func (j *judge) count() Count {
	c := Count{Asked: len(j.Requests), Crumbs: len(j.Crumbs), Executions: len(j.Effects), Outcomes: map[string]int{}, Unknown: map[string]int{}}
	for _, r := range j.Requests {
		if r.Accepted {
			c.Accepted++
		}
	}
	for _, r := range j.runs {
		switch {
		case r.completed():
			c.Completed++
		case r.cancelled():
			c.Cancelled++
		default:
			c.Other++
		}
		for _, of := range r.calls {
			c.call(j, r, of)
		}
	}
	for _, all := range j.effects {
		c.Repeated += len(all) - 1
	}
	for id, claim := range j.claims {
		if claim.Starts > 1 && !strings.HasSuffix(id, ".m") {
			c.Restarted++
		}
	}
	return c
}

func (c *Count) call(j *judge, r *run, of *call) {
	c.Outcomes[of.outcome()]++
	for _, answer := range of.resumed {
		switch answer.Outcome {
		case "approved":
			c.Approved++
		case "edited":
			c.Edited++
		case "rejected":
			c.Rejected++
		}
	}
	if of.outcome() == outcomeUnknown {
		c.Unknown[j.reason(r, of)]++
		c.UnknownCalls = append(c.UnknownCalls, fmt.Sprintf("%s at %s on %s, happened %d times: %s", of.id,
			of.end.Stored.Format("15:04:05.000"), of.end.Worker, len(j.effects[of.id]), j.reason(r, of)))
		if len(j.effects[of.id]) > 0 {
			c.UnknownHappened++
		}
	}
}
