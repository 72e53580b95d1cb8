package check_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/test/chaos/internal/check"
)

func start() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

const editedTo = `{"cents":4}`

// script writes a history: one second a crumb.
type script struct {
	check.History
	now time.Time
	seq map[string]int
}

func newScript() *script {
	return &script{now: start(), seq: map[string]int{}, History: check.History{Answers: map[string]time.Time{}, Left: map[string]uint64{"INBOX": 0}}}
}

func (s *script) asks(run string, calls int, cancel bool, ask ...string) {
	s.Requests = append(s.Requests, check.Request{Run: run, Accepted: true, Cancel: cancel, Calls: calls, Ask: ask})
	s.seq[run] = 0
}

// crumb appends a crumb; fields is JSON without its braces.
func (s *script) crumb(run, typ, fields string) {
	s.now = s.now.Add(time.Second)
	s.seq[run]++
	n := s.seq[run]
	if fields != "" {
		fields = "," + fields
	}
	s.Crumbs = append(s.Crumbs, check.Message{
		Sequence: uint64(len(s.Crumbs) + 1), Subject: "crumb.a." + run + "." + strings.ReplaceAll(typ, ":", "."), Stored: s.now,
		Header: map[string][]string{"ce-sequence": {fmt.Sprintf("%010d", n)}},
		Body:   json.RawMessage(fmt.Sprintf(`{"type":%q,"runId":%q,"seq":%d%s}`, typ, run, n, fields)),
	})
}

func (s *script) called(run string, i int, effect, args string) {
	id := fmt.Sprintf("%s.1.%d", run, i)
	s.crumb(run, "tool:call", fmt.Sprintf(`"toolCallId":%q,"toolName":"tool_%s","effect":%q,"args":%s`, id, effect, effect, args))
	s.claim(id, "started", 1)
}

func (s *script) claim(id, state string, starts int) {
	s.Claims = append(s.Claims, check.Message{Subject: "$KV.claims.tool.g." + id + ".1", Stored: s.now,
		Body: json.RawMessage(fmt.Sprintf(`{"state":%q,"starts":%d,"at":%q}`, state, starts, s.now.Format(time.RFC3339)))})
}

func (s *script) happened(run string, i int, args, key string) {
	s.Effects = append(s.Effects, check.Effect{Tool: "t", Call: fmt.Sprintf("%s.1.%d", run, i), Key: key, Args: json.RawMessage(args), At: s.now})
}

func (s *script) result(run string, i int) {
	s.crumb(run, "tool:result", fmt.Sprintf(`"toolCallId":"%s.1.%d","result":1,"worker":"w"`, run, i))
}

func (s *script) failed(run string, i int, outcome, code, worker string) {
	s.crumb(run, "tool:error", fmt.Sprintf(`"toolCallId":"%s.1.%d","outcome":%q,"worker":%q,"error":{"code":%q,"message":"m"}`, run, i, outcome, worker, code))
}

func (s *script) record(run, status string) {
	s.Records = append(s.Records, check.Message{Subject: "$KV.runs." + run, Header: map[string][]string{"Nats-TTL": {"360h"}}, Body: json.RawMessage(fmt.Sprintf(`{"status":%q}`, status))})
}

func (s *script) begin(run string, calls int) {
	var ids []string
	for i := range calls {
		ids = append(ids, fmt.Sprintf(`"%s.1.%d"`, run, i))
	}
	s.crumb(run, "agent:run:start", `"input":{}`)
	s.crumb(run, "step:end", `"toolCallIds":[`+strings.Join(ids, ",")+`]`)
}

func (s *script) end(run string) {
	s.crumb(run, "agent:run:end", `"output":"ok"`)
	s.record(run, "completed")
}

func quoted(doc string) string { return check.Hash(json.RawMessage(doc)) }

// good is a history that keeps every promise: a run whose calls are ok, one that
// was approved with edited arguments and one rejected, one cancelled, one with an
// unknown outcome.
func good() *script {
	s := newScript()
	s.asks("run_ok", 3, false)
	s.begin("run_ok", 3)
	s.called("run_ok", 0, "once", `{"cents":1}`)
	s.called("run_ok", 1, "idempotent", `{"seat":2}`)
	s.called("run_ok", 2, "pure", `{}`)
	s.happened("run_ok", 0, `{"cents":1}`, "")
	s.happened("run_ok", 1, `{"seat":2}`, "run_ok.1.1")
	s.happened("run_ok", 1, `{ "seat":2 }`, "run_ok.1.1") // its worker was killed in between
	s.happened("run_ok", 2, `{}`, "")
	for i := range 3 {
		s.result("run_ok", i)
	}
	s.end("run_ok")

	s.asks("run_ask", 2, false, "tool_once")
	s.begin("run_ask", 2)
	for i := range 2 {
		s.crumb("run_ask", "human:required", fmt.Sprintf(`"checkpointId":"run_ask.1.%d","toolName":"tool_once","args":{"cents":5},"argsHash":%q`, i, quoted(`{"cents":5}`)))
		s.Answers[fmt.Sprintf("run_ask.1.%d", i)] = s.now
	}
	s.crumb("run_ask", "human:resumed", `"checkpointId":"run_ask.1.0","outcome":"edited","args":{"cents":4}`)
	s.called("run_ask", 0, "once", editedTo)
	s.happened("run_ask", 0, editedTo, "")
	s.crumb("run_ask", "human:resumed", `"checkpointId":"run_ask.1.1","outcome":"rejected"`)
	s.result("run_ask", 0)
	s.end("run_ask")

	s.asks("run_stop", 2, true)
	s.begin("run_stop", 2)
	s.called("run_stop", 0, "once", `{}`)
	s.Claims = s.Claims[:len(s.Claims)-1]
	s.claim("run_stop.1.0", "revoked", 0)
	s.called("run_stop", 1, "pure", `{}`)
	s.failed("run_stop", 0, "cancelled", "TOOL_CANCELLED", "")
	s.failed("run_stop", 1, "cancelled", "TOOL_CANCELLED", "w")
	s.crumb("run_stop", "agent:error", `"error":{"code":"RUN_CANCELLED","message":"m"}`)
	s.record("run_stop", "cancelled")

	s.asks("run_unknown", 1, false)
	s.begin("run_unknown", 1)
	s.called("run_unknown", 0, "once", `{}`)
	s.Disturbances = append(s.Disturbances, check.Disturbance{Kind: "kill", Worker: "dead", From: s.now, To: s.now.Add(time.Millisecond)})
	s.failed("run_unknown", 0, "unknown", "OUTCOME_UNKNOWN", "dead")
	s.end("run_unknown")

	s.Exits = []check.Exit{{Process: "a", Asked: "kill", Status: "signal: killed"}, {Process: "b", Asked: "term", Status: "exit status 0", Clean: true}}
	return s
}

func TestCheck_Good(t *testing.T) {
	t.Parallel()
	r := check.Check(good().History)
	for _, v := range r.Violations {
		t.Error(v)
	}
	c := r.Count
	if c.Asked != 4 || c.Accepted != 4 || c.Completed != 3 || c.Cancelled != 1 || c.Edited != 1 || c.Rejected != 1 || c.Executions != 5 || c.Repeated != 1 {
		t.Errorf("counted %+v", c)
	}
	if want := map[string]int{"ok": 4, "rejected": 1, "cancelled": 2, "unknown": 1}; !maps.Equal(c.Outcomes, want) {
		t.Errorf("outcomes %v, want %v", c.Outcomes, want)
	}
	if want := map[string]int{"kill": 1}; !maps.Equal(c.Unknown, want) {
		t.Errorf("unknown %v, want %v", c.Unknown, want)
	}
}

// drop removes the nth crumb of a run.
func drop(s *script, run string, nth int) {
	i := -1
	s.Crumbs = slices.DeleteFunc(s.Crumbs, func(m check.Message) bool {
		if strings.Contains(m.Subject, "."+run+".") {
			i++
			return i == nth
		}
		return false
	})
}

// The judge sees what is wrong: each history is the good one with one thing
// changed.
func TestCheck_FindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tamper func(s *script)
		want   check.Rule
	}{
		"a lost run":                  {func(s *script) { s.asks("run_lost", 1, false) }, check.RuleEnded},
		"a run without an end":        {func(s *script) { drop(s, "run_ok", 8) }, check.RuleEnded},
		"two ends":                    {func(s *script) { s.crumb("run_ok", "agent:run:end", "") }, check.RuleEnded},
		"a crumb after the end":       {func(s *script) { s.crumb("run_ok", "step:end", "") }, check.RuleEnded},
		"a hole":                      {func(s *script) { drop(s, "run_ok", 4) }, check.RuleOrder},
		"a repeat":                    {func(s *script) { s.seq["run_ok"]--; s.end("run_ok") }, check.RuleOrder},
		"two crumbs swapped":          {func(s *script) { s.Crumbs[5], s.Crumbs[6] = s.Crumbs[6], s.Crumbs[5] }, check.RuleOrder},
		"a header with another count": {func(s *script) { s.Crumbs[1].Header["ce-sequence"][0] = "0000000009" }, check.RuleOrder},
		"no JSON":                     {func(s *script) { s.Crumbs[1].Body = json.RawMessage(`{`) }, check.RuleOrder},
		"a run that nobody asked for": {func(s *script) { s.crumb("run_x", "agent:run:start", "") }, check.RuleStranger},
		"an execution without a call": {func(s *script) { s.happened("run_ok", 9, `{}`, "") }, check.RuleStranger},
		"a call without an outcome":   {func(s *script) { drop(s, "run_ok", 5) }, check.RuleOutcome},
		"two outcomes":                {func(s *script) { s.failed("run_ok", 0, "unknown", "OUTCOME_UNKNOWN", "dead") }, check.RuleOutcome},
		"two answers": {func(s *script) {
			s.crumb("run_ask", "human:resumed", `"checkpointId":"run_ask.1.0","outcome":"approved"`)
		}, check.RuleOutcome},
		"a call that was forgotten": {func(s *script) { s.Requests[0].Calls = 4 }, check.RuleOutcome},
		"a payment twice":           {func(s *script) { s.happened("run_ok", 0, `{"cents":1}`, "") }, check.RuleOnce},
		"an unknown payment twice": {func(s *script) {
			s.happened("run_unknown", 0, `{}`, "")
			s.happened("run_unknown", 0, `{}`, "")
		}, check.RuleOnce},
		"ok and never happened": {func(s *script) {
			s.Effects = slices.DeleteFunc(s.Effects, func(e check.Effect) bool { return e.Call == "run_ok.1.0" })
		}, check.RuleHappened},
		"ok and pure and never happened": {func(s *script) {
			s.Effects = slices.DeleteFunc(s.Effects, func(e check.Effect) bool { return e.Call == "run_ok.1.2" })
		}, check.RuleHappened},
		"another key":        {func(s *script) { s.happened("run_ok", 1, `{"seat":2}`, "run_ok.1.1b") }, check.RuleKey},
		"other arguments":    {func(s *script) { s.happened("run_ok", 2, `{"x":1}`, "") }, check.RuleApproved},
		"a rejected payment": {func(s *script) { s.happened("run_ask", 1, `{"cents":5}`, "") }, check.RuleApproved},
		"not what was approved": {func(s *script) {
			s.Crumbs[13].Body = json.RawMessage(strings.Replace(string(s.Crumbs[13].Body), "4", "3", 1))
		}, check.RuleApproved},
		"before the answer":      {func(s *script) { s.Answers["run_ask.1.0"] = s.now }, check.RuleApproved},
		"nobody answered":        {func(s *script) { delete(s.Answers, "run_ask.1.0") }, check.RuleApproved},
		"nobody was asked":       {func(s *script) { s.Requests[0].Ask = []string{"tool_once"} }, check.RuleApproved},
		"cancelled and happened": {func(s *script) { s.happened("run_stop", 0, `{}`, "") }, check.RuleCancelled},
		"started after the end": {func(s *script) {
			s.Claims = slices.DeleteFunc(s.Claims, func(m check.Message) bool { return strings.Contains(m.Subject, "run_stop.1.1") })
			s.claim("run_stop.1.1", "started", 1)
		}, check.RuleCancelled},
		"ran without a start": {func(s *script) {
			s.Claims = slices.DeleteFunc(s.Claims, func(m check.Message) bool { return strings.Contains(m.Subject, "run_stop.1.1") })
			s.happened("run_stop", 1, `{}`, "")
		}, check.RuleCancelled},
		"unknown for no reason":   {func(s *script) { s.Disturbances = nil }, check.RuleUnknown},
		"unknown, another killed": {func(s *script) { s.Disturbances[0].Worker = "other" }, check.RuleUnknown},
		"unknown, killed too late": {func(s *script) {
			s.Disturbances[0].From, s.Disturbances[0].To = s.now.Add(time.Hour), s.now.Add(time.Hour)
		}, check.RuleUnknown},
		"a failed call": {func(s *script) {
			s.Crumbs[5].Body = json.RawMessage(strings.NewReplacer("tool:result", "tool:error", `"result":1`, `"outcome":"error","error":{"code":"TOOL_ERROR","message":"m"}`).Replace(string(s.Crumbs[5].Body)))
		}, check.RuleFailed},
		"a failed run": {func(s *script) {
			s.Crumbs[8].Body = json.RawMessage(`{"type":"agent:error","runId":"run_ok","seq":9,"error":{"code":"INTERNAL_ERROR","message":"m"}}`)
		}, check.RuleFailed},
		"cancelled by nobody":     {func(s *script) { s.Requests[2].Cancel = false }, check.RuleFailed},
		"a record without an end": {func(s *script) { s.Records[0].Header = nil }, check.RuleRecord},
		"a record that disagrees": {func(s *script) { s.Records[0].Body = json.RawMessage(`{"status":"failed"}`) }, check.RuleRecord},
		"no record":               {func(s *script) { s.Records = s.Records[1:] }, check.RuleRecord},
		"a message left":          {func(s *script) { s.Left["INBOX"] = 1 }, check.RuleLeft},
		"a process that gave up":  {func(s *script) { s.Exits = append(s.Exits, check.Exit{Process: "c", Status: "exit status 1"}) }, check.RuleProcess},
		"a process that cannot leave": {func(s *script) {
			s.Exits = append(s.Exits, check.Exit{Process: "c", Asked: "term", Status: "exit status 1"})
		}, check.RuleProcess},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := good()
			c.tamper(s)
			r := check.Check(s.History)
			if r.Kept(c.want) {
				t.Errorf("%s was not missed; found %v", c.want, r.Violations)
			}
		})
	}
}

// A cancel that meets a `once` call in its worker makes it unknown.
func TestCheck_CancelExplainsUnknown(t *testing.T) {
	t.Parallel()
	s := newScript()
	s.asks("run_stop", 1, true)
	s.begin("run_stop", 1)
	s.called("run_stop", 0, "once", `{}`)
	s.happened("run_stop", 0, `{}`, "")
	s.Disturbances = []check.Disturbance{{Kind: "partition", From: s.now, To: s.now.Add(time.Minute)}}
	s.failed("run_stop", 0, "unknown", "OUTCOME_UNKNOWN", "") // nobody reported it: the run waited long enough
	s.crumb("run_stop", "agent:error", `"error":{"code":"RUN_CANCELLED","message":"m"}`)
	s.record("run_stop", "cancelled")
	r := check.Check(s.History)
	if len(r.Violations) > 0 || r.Count.Unknown["cancel of the run"] != 1 || r.Count.UnknownHappened != 1 {
		t.Errorf("found %v, counted %+v", r.Violations, r.Count)
	}
}

func TestPromises_EveryRuleOnce(t *testing.T) {
	t.Parallel()
	seen := map[check.Rule]bool{}
	for _, p := range check.Promises() {
		if seen[p.Rule] || p.Text == "" {
			t.Errorf("rule %q is listed twice or says nothing", p.Rule)
		}
		seen[p.Rule] = true
	}
}
