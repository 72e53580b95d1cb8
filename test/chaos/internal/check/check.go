package check

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds of the check.
const (
	// slack is how far apart the stored time of a crumb and the moment that it
	// tells of may be: commands are sent before the crumb that says so.
	slack = 2 * time.Second
	// startsMax is how often a call may start and not finish before it is lost.
	startsMax = 3
)

// Result is what a check found.
type Result struct {
	Violations []Violation
	Count      Count
}

// Kept reports whether a rule holds.
func (r Result) Kept(rule Rule) bool {
	return !slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Rule == rule })
}

// Check holds a history against every rule.
func Check(h History) Result {
	j := &judge{History: h, runs: map[string]*run{}, asked: map[string]Request{}, effects: map[string][]Effect{}, claims: claims(h.Claims)}
	for _, r := range h.Requests {
		j.asked[r.Run] = r
	}
	for _, e := range h.Effects {
		j.effects[e.Call] = append(j.effects[e.Call], e)
	}
	j.read()
	for _, r := range h.Requests {
		j.request(r)
	}
	j.strangers()
	j.records()
	j.rest()
	return Result{j.found, j.count()}
}

// judge is one check.
type judge struct {
	History
	runs    map[string]*run
	asked   map[string]Request
	effects map[string][]Effect // by call
	claims  map[string]claim    // by call
	found   []Violation
}

func (j *judge) against(rule Rule, run, format string, args ...any) {
	j.found = append(j.found, Violation{rule, run, fmt.Sprintf(format, args...)})
}

// read sorts the crumbs by run, in stream order.
func (j *judge) read() {
	for _, m := range j.Crumbs {
		c := crumb{Message: m}
		if err := json.Unmarshal(m.Body, &c); err != nil {
			j.against(RuleOrder, "", "crumb %d on %s does not decode: %v", m.Sequence, m.Subject, err)
			continue
		}
		r := j.runs[c.RunID]
		if r == nil {
			r = &run{id: c.RunID, calls: map[string]*call{}}
			j.runs[c.RunID] = r
		}
		r.take(c)
	}
}

// request checks one run that was asked for.
func (j *judge) request(asked Request) {
	r := j.runs[asked.Run]
	if r == nil {
		if asked.Accepted {
			j.against(RuleEnded, asked.Run, "accepted, and there is no crumb of it")
		}
		return
	}
	j.ends(r)
	j.order(r)
	j.outcomes(r, asked)
	for _, id := range r.order {
		c := r.calls[id]
		j.times(r, c)
		j.arguments(r, c, asked)
		j.explained(r, c)
	}
	j.cancels(r)
	if end := r.end(); end != nil && end.Type == "agent:error" && (end.code() != "RUN_CANCELLED" || !asked.Cancel) {
		j.against(RuleFailed, r.id, "ended with %s: %s", end.code(), end.Error.Message)
	}
}

func (j *judge) ends(r *run) {
	n := 0
	for _, c := range r.crumbs {
		if c.terminal() {
			n++
		}
	}
	last := r.crumbs[len(r.crumbs)-1]
	switch {
	case n == 0:
		j.against(RuleEnded, r.id, "has no end: its last crumb is %d, %s", last.Seq, last.Type)
	case n > 1:
		j.against(RuleEnded, r.id, "has %d terminal crumbs", n)
	case !last.terminal():
		j.against(RuleEnded, r.id, "goes on after its end with %s", last.Type)
	}
}

func (j *judge) order(r *run) {
	for i, c := range r.crumbs {
		if c.Seq != i+1 || c.sequence() != c.wantSequence() {
			j.against(RuleOrder, r.id, "crumb %d in the stream has seq %d and ce-sequence %q (%s)", i+1, c.Seq, c.sequence(), c.Type)
		}
	}
}

func (j *judge) outcomes(r *run, asked Request) {
	for _, id := range r.order {
		c := r.calls[id]
		if n := len(c.outcomes); n != 1 {
			j.against(RuleOutcome, r.id, "call %s has %d outcomes: %s", id, n, strings.Join(c.outcomes, ", "))
		}
		if c.required != nil && len(c.resumed) != 1 {
			j.against(RuleOutcome, r.id, "question %s has %d ends", id, len(c.resumed))
		}
	}
	if n := len(r.order); r.completed() && n != asked.Calls {
		j.against(RuleOutcome, r.id, "completed after %d calls, expected %d", n, asked.Calls)
	}
}

// times holds the outcome of a call against how often it happened.
func (j *judge) times(r *run, c *call) {
	n := len(j.effects[c.id])
	if c.sent == nil {
		return // arguments says that it must not have run
	}
	if c.sent.Effect == effectOnce {
		if n > 1 {
			j.against(RuleOnce, r.id, "call %s (%s, %s) happened %d times", c.id, c.sent.ToolName, c.outcome(), n)
		}
		if c.outcome() == outcomeCancelled && n > 0 {
			j.against(RuleCancelled, r.id, "call %s (%s) is called cancelled and happened", c.id, c.sent.ToolName)
		}
	}
	if c.outcome() == outcomeOK && n == 0 {
		j.against(RuleHappened, r.id, "call %s (%s) is ok and never happened", c.id, c.sent.ToolName)
	}
	for _, e := range j.effects[c.id] {
		if c.sent.Effect == effectIdempotent && (e.Key != c.id || canonical(e.Args) != canonical(c.sent.Args)) {
			j.against(RuleKey, r.id, "call %s (%s) happened under key %q with %s", c.id, c.sent.ToolName, e.Key, e.Args)
		}
	}
}

// arguments holds what ran against what was sent and approved.
func (j *judge) arguments(r *run, c *call, asked Request) {
	ran := j.effects[c.id]
	if c.sent == nil {
		if len(ran) > 0 {
			j.against(RuleApproved, r.id, "call %s (%s) was never sent and ran", c.id, c.outcome())
		}
		return
	}
	for _, e := range ran {
		if canonical(e.Args) != canonical(c.sent.Args) {
			j.against(RuleApproved, r.id, "call %s ran with %s, its crumb says %s", c.id, e.Args, c.sent.Args)
		}
	}
	if !slices.Contains(asked.Ask, c.sent.ToolName) {
		return
	}
	if c.required == nil {
		j.against(RuleApproved, r.id, "call %s (%s) needs an approval and nobody was asked", c.id, c.sent.ToolName)
		return
	}
	agreed, answered := c.approved(), j.Answers[c.id]
	if agreed == "" {
		j.against(RuleApproved, r.id, "call %s was sent and nobody approved it", c.id)
	}
	for _, e := range ran {
		if hash(e.Args) != agreed {
			j.against(RuleApproved, r.id, "call %s ran with %s, which was not approved", c.id, e.Args)
		}
		if answered.IsZero() || e.At.Before(answered) {
			j.against(RuleApproved, r.id, "call %s ran at %s, before an answer was sent", c.id, e.At.Format(time.RFC3339Nano))
		}
	}
}

// explained asks what is not ok for its reason.
func (j *judge) explained(r *run, c *call) {
	switch c.outcome() {
	case outcomeUnknown:
		if c.sent != nil && c.sent.Effect != effectOnce {
			j.against(RuleUnknown, r.id, "call %s is %s and ended unknown", c.id, c.sent.Effect)
		}
		if j.reason(r, c) == "" {
			j.against(RuleUnknown, r.id, "call %s ended unknown at %s and nothing was done to its worker %q: %s",
				c.id, c.end.Stored.Format(time.RFC3339Nano), c.end.Worker, c.end.Error.Message)
		}
	case "error":
		lost := c.end.code() == "TOOL_LOST" && j.claims[c.id].Starts >= startsMax
		if !lost {
			j.against(RuleFailed, r.id, "call %s ended with %s: %s", c.id, c.end.code(), c.end.Error.Message)
		}
	case outcomeBlocked, "expired":
		j.against(RuleFailed, r.id, "call %s ended %s", c.id, c.outcome())
	}
}

// reason is what was done to an unknown call while its worker had it, "" for
// nothing: a `once` call that a cancel interrupts is unknown too.
func (j *judge) reason(r *run, c *call) string {
	if c.sent == nil {
		return ""
	}
	from, to := c.sent.Stored.Add(-slack), c.end.Stored
	if len(c.resumed) > 0 {
		from = c.resumed[0].Stored.Add(-slack)
	}
	done := func(worker string) string {
		for _, d := range j.Disturbances {
			// A worker's id is that of one process: whenever that was killed, it
			// had the call. The crumb that says so may be seconds late.
			if d.Worker == worker && d.From.Before(to) && (worker != "" || d.To.After(from)) {
				return d.Kind
			}
		}
		return ""
	}
	own, cancelled := "", ""
	if c.end.Worker != "" { // an outcome that nobody reported names none
		own = done(c.end.Worker)
	}
	if r.cancelled() {
		cancelled = "cancel of the run"
	}
	return cmp.Or(own, cancelled, done("")) // the nearest reason first
}

// cancels checks that a cancelled run starts nothing after its end.
func (j *judge) cancels(r *run) {
	if !r.cancelled() {
		return
	}
	for _, id := range r.order {
		c, claim := r.calls[id], j.claims[id]
		if c.outcome() == outcomeOK || c.sent == nil {
			continue // settled before: it may run again if its effect allows that
		}
		if claim.State == "started" && claim.stored.After(r.end().Stored) {
			j.against(RuleCancelled, r.id, "call %s (%s) started %s after the run's end", id, c.outcome(), claim.stored.Sub(r.end().Stored))
		}
		if n := len(j.effects[id]); claim.Starts == 0 && n > 0 {
			j.against(RuleCancelled, r.id, "call %s had not started and ran %d times", id, n)
		}
	}
}

// strangers are crumbs and executions that nobody asked for.
func (j *judge) strangers() {
	for id := range j.runs {
		if _, ok := j.asked[id]; !ok {
			j.against(RuleStranger, id, "nobody asked for this run")
		}
	}
	for id, all := range j.effects {
		name, _, _ := strings.Cut(id, ".")
		if r := j.runs[name]; r == nil || r.calls[id] == nil {
			j.against(RuleStranger, name, "%s was executed for call %s, which no run made", all[0].Tool, id)
		}
	}
}

// records holds the bucket of runs against the crumbs.
func (j *judge) records() {
	type record struct {
		Status string `json:"status"`
	}
	found := map[string]bool{}
	for _, m := range j.Records {
		id := strings.TrimPrefix(m.Subject, "$KV.runs.")
		found[id] = true
		r := j.runs[id]
		var got record
		if err := json.Unmarshal(m.Body, &got); err != nil {
			j.against(RuleRecord, id, "the record does not decode: %v", err)
			continue
		}
		if first(m.Header, "Nats-TTL") == "" {
			j.against(RuleRecord, id, "the record is %s and not in its final form", got.Status)
		}
		if r == nil {
			continue
		}
		want := "failed"
		switch {
		case r.completed():
			want = "completed"
		case r.cancelled():
			want = "cancelled"
		}
		if got.Status != want {
			j.against(RuleRecord, id, "the record says %s, the crumbs %s", got.Status, want)
		}
	}
	for _, r := range j.Requests {
		if r.Accepted && !found[r.Run] {
			j.against(RuleRecord, r.Run, "accepted, and there is no record")
		}
	}
}

// rest checks what is of no run.
func (j *judge) rest() {
	for queue, n := range j.Left {
		if n > 0 {
			j.against(RuleLeft, "", "%d messages wait in %s", n, queue)
		}
	}
	for _, e := range j.Exits {
		switch {
		case e.Asked == "":
			j.against(RuleProcess, "", "%s ended by itself: %s", e.Process, e.Status)
		case e.Asked == "term" && !e.Clean:
			j.against(RuleProcess, "", "%s was told to stop and ended with %s", e.Process, e.Status)
		}
	}
}
