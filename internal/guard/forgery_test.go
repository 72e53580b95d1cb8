package guard_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

// everybody are the roles that a mesh runs with.
func everybody() []string {
	return []string{access.RoleProvisioner, access.RoleBackup, access.RoleOrchestrator, access.RoleModels, access.RoleApprovals, access.ToolsRole(research),
		access.RoleClient, access.RoleApprover, access.RoleOperator}
}

func except(roles ...string) []string {
	return slices.DeleteFunc(everybody(), func(r string) bool { return slices.Contains(roles, r) })
}

// forgery is something that all of these roles try to publish, in vain: NATS refuses
// it, tells the connection, and logs it with the user's key.
type forgery struct {
	name    string
	subject string // `$JS.API.` is each role's own prefix
	data    string
	by      []string
}

const forgedDecision = `{"type":"approval.decision","runId":"run_1","checkpointId":"run_1.1.0","argsHash":"x","outcome":"approve","by":{"iss":"local","sub":"eve"},"via":"cli","at":"2026-01-01T00:00:00Z","kid":"x","sig":"x"}`

func forgeries() []forgery {
	core, orchestrator, provisioner := except(access.RoleOrchestrator, access.RoleProvisioner), except(access.RoleOrchestrator), except(access.RoleProvisioner)
	return []forgery{
		{"a decision", "approval.decision.run_1.run_1-1-0", forgedDecision, except(access.RoleApprovals)},
		{"a result of another group", "tool.result.payments.run_1.run_1-1-0-1", `{"type":"tool.result"}`, everybody()},
		{"a model result", "model.result.script.run_1.run_1-1-m-1", `{}`, except(access.RoleModels)},
		{"a crumb", "crumb.clerk.run_1.tool.result", `{}`, orchestrator},
		{"the end of a run", "crumb.clerk.run_1.agent.run.end", `{}`, orchestrator},
		{"a model's delta", "delta.clerk.run_1.text", `{}`, except(access.RoleModels)},
		{"another group's partial", "delta.clerk.run_1.tool.partial.payments", `{}`, everybody()},
		{"a cancel", "run.control.run_1", `{"action":"cancel"}`, orchestrator},
		{"an order", "run.order.run_1.run_1-1-0-1", `{}`, orchestrator},
		{"a child run", "run.start.run_9", `{}`, orchestrator},
		{"the end of a child run", "run.child.run_1.run_1-1-0", `{}`, orchestrator},
		{"a request for a run", "run.request.clerk", `{}`, except(access.RoleOrchestrator, access.RoleClient)},
		{"a tool call", "tool.call.payments.run_1", `{}`, orchestrator},
		{"a model call", "model.call.script.run_1", `{}`, orchestrator},
		{"a timer", "timer.set.run_1.1", `{}`, orchestrator},
		{"a timer that is due", "timer.due.run_1.1", `{}`, everybody()},
		{"a stop of what runs", "ctl.cancel.run_1", `{"runId":"run_1"}`, orchestrator},
		{"another group's dead letter", "dead.TOOLCALLS-payments.run_1.9", `{}`, orchestrator},
		{"a dead letter of a request", "dead.REQUESTS.run_1.9", `{}`, orchestrator},
		{"a note on a dead letter", "dead.TOOLCALLS-research.run_1.7.redrive", `{}`, orchestrator},
		{"another group's claim", "$KV.claims.tool.payments.run_1.1.0.1", `{"state":"revoked"}`, orchestrator},
		{"a model's claim", "$KV.claims.model.script.run_1.1.m.1", `{"state":"revoked"}`, except(access.RoleOrchestrator, access.RoleModels)},
		{"another group's presence", "$KV.workers.tool.payments.w1", `{}`, everybody()},
		{"another group's tool", "$KV.tools.payments._.pay", `{}`, everybody()},
		{"a run's record", "$KV.runs.run_1", `{}`, orchestrator},
		{"an agent", "$KV.agents.clerk.1", `{}`, orchestrator},
		{"a question's row", "$KV.approvals.run_1.1.0", `{}`, except(access.RoleApprovals)},
		{"a session", "$KV.sessions.ses_1", `{}`, orchestrator},
		{"another group's large call", "blob.call.payments.run_1." + strings.Repeat("0", 64) + ".0", `x`, orchestrator},
		{"another group's large result", "blob.tool.payments.run_1." + strings.Repeat("0", 64) + ".0", `x`, orchestrator},
		{"another group's file", "blob.file.tool.payments.run_1." + strings.Repeat("0", 64) + ".0", `x`, orchestrator},
		{"a model's file", "blob.file.model.other.run_1." + strings.Repeat("0", 64) + ".0", `x`, orchestrator},
		{"a large value of a record", "blob.core.run_1." + strings.Repeat("0", 64) + ".0", `x`, orchestrator},
		{"a large crumb", "blob.crumb.run_1." + strings.Repeat("0", 64) + ".0", `x`, orchestrator},
		{"a file", "$O.files.M.x", `{}`, everybody()},
		{"another's acknowledgement", "$JS.ACK.TOOLCALLS.group_payments.1.1.1.1.0", "+TERM", everybody()},
		{"another's acknowledgement in the announced form", "$JS.ACK._.h.TOOLCALLS.group_payments.1.1.1.1.0", "+TERM", everybody()},
		{"an acknowledgement that imitates that form", "$JS.ACK.TOOLCALLS.group_payments.TOOLCALLS.group_research.1.1.1.1.0", "+NXT", everybody()},
		{"another group's calls", "$JS.API.CONSUMER.MSG.NEXT.TOOLCALLS.group_payments", `{"batch":1}`, everybody()},
		{"another group's queue", "$JS.API.CONSUMER.INFO.TOOLCALLS.group_payments", ``, except(access.RoleOrchestrator, access.RoleProvisioner, access.RoleOperator)},
		{"the answers of everybody", "$JS.API.CONSUMER.MSG.NEXT.INBOX.events", `{"batch":1}`, orchestrator},
		{"a consumer of calls", "$JS.API.CONSUMER.CREATE.TOOLCALLS.spy.tool.call.payments.*", `{}`, core},
		{"a consumer with a wildcard for a name", "$JS.API.CONSUMER.CREATE.TOOLCALLS.*.tool.call.>", `{}`, core},
		{"a consumer that delivers into the core", "$JS.API.CONSUMER.CREATE.CRUMBS.spy.crumb.>", `{"stream_name":"CRUMBS","config":{"name":"spy","deliver_subject":"approval.decision.run_1.run_1-1-0","filter_subject":"crumb.>"}}`, core},
		{"a consumer of the old form", "$JS.API.CONSUMER.DURABLE.CREATE.TOOLCALLS.spy", `{}`, everybody()},
		{"the end of a consumer", "$JS.API.CONSUMER.DELETE.TOOLCALLS.group_payments", ``, provisioner},
		{"a pause", "$JS.API.CONSUMER.PAUSE.TOOLCALLS.group_payments", `{"pause_until":"2036-01-01T00:00:00Z"}`, everybody()},
		{"a reset", "$JS.API.CONSUMER.RESET.TOOLCALLS.group_payments", `{}`, everybody()},
		{"an unpin", "$JS.API.CONSUMER.UNPIN.TOOLCALLS.group_payments", `{"group":"x"}`, everybody()},
		{"a new stream", "$JS.API.STREAM.CREATE.EVIL", `{"name":"EVIL","sources":[{"name":"TOOLCALLS"}]}`, provisioner},
		{"another shape of a stream", "$JS.API.STREAM.UPDATE.CRUMBS", `{}`, provisioner},
		{"the end of a stream", "$JS.API.STREAM.DELETE.CRUMBS", ``, provisioner},
		{"an emptied stream", "$JS.API.STREAM.PURGE.CRUMBS", ``, everybody()},
		{"a message gone", "$JS.API.STREAM.MSG.DELETE.CRUMBS", `{"seq":1}`, everybody()},
		{"a call gone", "$JS.API.STREAM.MSG.DELETE.TOOLCALLS", `{"seq":1}`, orchestrator},
		{"a snapshot", "$JS.API.STREAM.SNAPSHOT.KV_runs", `{"deliver_subject":"x"}`, except(access.RoleBackup)},
		{"a restore", "$JS.API.STREAM.RESTORE.EVIL", `{}`, provisioner},
		{"a part of a restore", "$JS.SNAPSHOT.RESTORE.EVIL.x", `x`, provisioner},
		{"an acknowledgement of a snapshot", "$JS.SNAPSHOT.ACK.KV_runs.x", `+ACK`, except(access.RoleBackup)},
		{"a new leader", "$JS.API.STREAM.LEADER.STEPDOWN.CRUMBS", ``, everybody()},
		{"the subjects of all calls", "$JS.API.STREAM.INFO.TOOLCALLS", `{"subjects_filter":">"}`, except(access.RoleBackup, access.RoleOrchestrator, access.RoleProvisioner, access.RoleOperator)},
		{"any message of any queue", "$JS.API.STREAM.MSG.GET.TOOLCALLS", `{"seq":1}`, orchestrator},
		{"any record", "$JS.API.STREAM.MSG.GET.KV_runs", `{"last_by_subj":"$KV.runs.>"}`, orchestrator},
		{"a record", "$JS.API.DIRECT.GET.KV_runs.$KV.runs.run_1", ``, orchestrator},
		{"any claim", "$JS.API.STREAM.MSG.GET.KV_claims", `{"seq":1}`, orchestrator},
		{"another group's claim to read", "$JS.API.DIRECT.GET.KV_claims.$KV.claims.tool.payments.>", ``, orchestrator},
		{"all claims", "$JS.API.DIRECT.GET.KV_claims", `{"seq":1,"batch":100}`, orchestrator},
		{"claims by a wildcard group", "$JS.API.DIRECT.GET.KV_claims.$KV.claims.tool.*.>", ``, orchestrator},
		{"another group's large call to read", "$JS.API.DIRECT.GET.BLOBS.blob.call.payments.>", ``, orchestrator},
		{"large calls of a wildcard group", "$JS.API.DIRECT.GET.BLOBS.blob.call.*.>", ``, orchestrator},
		{"all blobs", "$JS.API.DIRECT.GET.BLOBS", `{"seq":1,"batch":100}`, orchestrator},
		{"blobs by their sequence", "$JS.API.STREAM.MSG.GET.BLOBS", `{"seq":1}`, orchestrator},
		{"dead letters", "$JS.API.DIRECT.GET.DEADLETTER.dead.TOOLCALLS-payments.>", ``, orchestrator},
		{"answers that wait", "$JS.API.DIRECT.GET.INBOX", `{"seq":1,"batch":10}`, orchestrator},
		{"a person's answer", crumbs.EndpointApprovalsDecide, `{"checkpointId":"run_1.1.0","outcome":"approve"}`, except(access.RoleApprover)},
		{"other agents", crumbs.EndpointAgentsApply, `{}`, except(access.RoleOperator)},
		{"a redrive", crumbs.EndpointDeadRedrive, `{"id":1}`, except(access.RoleOperator)},
		{"an outcome by hand", crumbs.EndpointDeadAnswer, `{"id":1}`, except(access.RoleOperator)},
		{"a letter closed by hand", crumbs.EndpointDeadClose, `{"id":1}`, except(access.RoleOperator)},
		{"a start", crumbs.EndpointRunsStart, `{"agentId":"clerk"}`, except(access.RoleClient)},
		{"a cancel by the endpoint", crumbs.EndpointRunsCancel, `{"runId":"run_1"}`, except(access.RoleClient, access.RoleOperator)},
		{"an answer in another's inbox", "_INBOX.orchestrator.x.y", `{}`, except()},
		{"a statement about a service", "$SRV.PING", ``, everybody()},
		{"the system's own requests", "$SYS.REQ.SERVER.PING", ``, everybody()},
		{"a reload of the server", "$SYS.REQ.SERVER.x.RELOAD", ``, everybody()},
		{"a false advisory", "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.TOOLCALLS.group_payments", `{"stream_seq":1}`, everybody()},
	}
}

// snoops are what nobody but those named may listen to.
func snoops() map[string][]string {
	return map[string][]string{
		">": nil, "*.>": nil, "_INBOX.>": nil, "_INBOX.*.>": nil, "_INBOX.orchestrator.>": {access.RoleOrchestrator}, "_R_.>": nil,
		"tool.call.>": nil, "model.call.>": nil, "tool.result.>": nil, "approval.>": nil, "run.>": nil, "timer.>": nil, "dead.>": nil, "blob.>": nil,
		"$KV.>": nil, "$JS.>": nil, "$JS.ACK.>": nil, "$JS.API.>": nil, "MESHJS.>": nil, "$SYS.>": nil, "$O.>": nil,
		crumbs.SubjectCrumbs: {access.RoleClient, access.RoleApprover, access.RoleOperator}, crumbs.SubjectDeltas: {access.RoleClient, access.RoleApprover, access.RoleOperator},
		crumbs.EndpointRunsStart: {access.RoleOrchestrator}, crumbs.EndpointApprovalsDecide: {access.RoleApprovals},
	}
}

// local is a subject as the role's account has it: each attacks the API that it knows.
func (s *scene) local(role, subject string) string {
	r, err := s.Guard.Mesh.Role(role)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.Local(subject)
}

// Everything that a role may not publish, or listen to, tried with its own key:
// nothing is stored, nothing is read, nothing moves; and the server's log has each
// attempt, with the key of who made it.
func TestForgery_RefusedByPermission(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	tried := 0
	for _, role := range everybody() {
		a := s.attacker(t, role)
		before := s.state()
		for _, f := range forgeries() {
			if !slices.Contains(f.by, role) {
				continue
			}
			tried++
			subject, logged := s.local(role, f.subject), len(s.Guard.Log("Publish Violation"))
			reply := a.conn.NewInbox()
			a.listen(reply)
			a.send(subject, reply, nil, f.data)
			if len(s.Guard.Log("Publish Violation")) != logged+1 {
				t.Errorf("%s forges %s (%s): not refused, or not seen", role, f.name, subject)
			}
		}
		for subject, may := range snoops() {
			if slices.Contains(may, role) {
				continue
			}
			tried++
			logged := len(s.Guard.Log("Subscription Violation"))
			a.listen(subject)
			if len(s.Guard.Log("Subscription Violation")) != logged+1 {
				t.Errorf("%s listens to %s: not refused, or not seen", role, subject)
			}
			if _, err := a.conn.QueueSubscribe(subject, "q", func(*nats.Msg) {}); err != nil {
				t.Fatal(err)
			}
			if a.flush(); len(s.Guard.Log("Subscription Violation")) != logged+2 {
				t.Errorf("%s listens to %s in a queue: not refused", role, subject)
			}
		}
		for _, d := range changed(before, s.state()) {
			t.Errorf("%s changed %s", role, d)
		}
		if len(a.heard) > 0 {
			t.Errorf("%s was answered: %v", role, a.heard)
		}
	}
	t.Logf("%d forgeries, all refused and logged", tried)
}

// A reply subject is checked by nobody: whoever may ask anything has NATS send the
// answer where he may not write. From an account of its own it reaches nobody.
func TestForgery_ReplySubjectDeputy(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const js = access.APIPrefix
	tried := 0
	for role, asks := range map[string][][2]string{
		access.ToolsRole(research): {
			{"tool.result.research.run_9.run_9-1-0-1", `{"type":"tool.result"}`}, {"$KV.claims.tool.research.run_1.1.1.1", forgedDecision},
			{js + ".DIRECT.GET.KV_claims.$KV.claims.tool.research.run_1.1.1.1", ``}, {"$KV.tools.research._.x", forgedDecision},
			{js + ".CONSUMER.INFO.TOOLCALLS.group_research", ``}, {js + ".CONSUMER.MSG.NEXT.TOOLCALLS.group_research", `{"batch":1,"no_wait":true}`},
			{"blob.tool.research.run_9." + strings.Repeat("0", 64) + ".0", forgedDecision},
			{js + ".DIRECT.GET.BLOBS.blob.tool.research.run_9." + strings.Repeat("0", 64) + ".0", ``},
			{"dead.TOOLCALLS-research.run_9.9", forgedDecision}, {"delta.clerk.run_1.tool.partial.research", forgedDecision},
		},
		access.RoleModels: {{js + ".STREAM.MSG.GET.KV_agents", `{"seq":1}`}, {"delta.clerk.run_1.text", forgedDecision},
			{"$KV.claims.model.script.run_1.1.m.1", forgedDecision}, {js + ".DIRECT.GET.KV_claims.$KV.claims.model.script.run_1.1.m.1", ``}},
		access.RoleApprovals: {{"$KV.approvals.run_1.1.0", `{"type":"tool.result"}`}, {js + ".DIRECT.GET.CRUMBS", `{"seq":1}`}},
		access.RoleClient:    {{js + ".DIRECT.GET.CRUMBS", `{"seq":1}`}, {js + ".DIRECT.GET.DELTAS.delta.>", ``}, {"run.request.clerk", `{}`}},
		access.RoleOperator:  {{js + ".STREAM.INFO.CRUMBS", ``}, {js + ".CONSUMER.INFO.TOOLCALLS.group_payments", ``}},
	} {
		r, err := s.Guard.Mesh.Role(role)
		if err != nil {
			t.Fatal(err)
		}
		a := s.attacker(t, role)
		for _, reply := range []string{"approval.decision.run_1.run_1-1-0", "run.control.run_1", "run.order.run_1.run_1-1-0-1", "crumb.clerk.run_1.agent.run.end", "timer.set.run_1.1",
			"$KV.runs.run_1", "tool.result.payments.run_1.run_1-1-0-1", "tool.call.payments.run_1", "dead.TOOLCALLS-payments.run_1.7", crumbs.EndpointAgentsApply} {
			if slices.Contains(r.Publishes(), reply) || role == access.RoleApprovals && strings.HasPrefix(reply, "approval.") {
				continue
			}
			before := s.holds(reply)
			for _, ask := range asks {
				tried++
				a.send(ask[0], reply, nil, ask[1])
				a.ask(ask[0], nil, ask[1]) // answered after the one before it
			}
			if after := s.holds(reply); after != before {
				t.Errorf("%s had NATS write to %s: sequence %d, before %d", role, reply, after, before)
			}
		}
	}
	t.Logf("%d forgeries that reached nobody", tried)
}

// holds is the last sequence of a subject in its stream, 0 when it has none.
func (s *scene) holds(subject string) uint64 {
	s.t.Helper()
	stream, err := s.Conn.JS.StreamNameBySubject(s.t.Context(), subject)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0 // an endpoint
	}
	if err != nil {
		s.t.Fatal(err)
	}
	m, err := s.Conn.Last(s.t.Context(), stream, subject)
	if err != nil {
		s.t.Fatal(err)
	}
	if m == nil {
		return 0
	}
	return m.Sequence
}

// What a role may publish to does not let it do more by headers: no stream is
// emptied, no other subject scheduled, no trace sent, no limit lifted.
func TestForgery_Headers(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const claim, result, blob = "$KV.claims.tool.research.run_7.1.0.1", "tool.result.research.run_7.run_7-1-0-1", "blob.tool.research.run_7."
	a := s.attacker(t, access.ToolsRole(research))
	digest := func(n int) string { return blob + strings.Repeat(string(rune('0'+n)), 64) + ".0" }
	before := s.others()
	for name, try := range map[string]struct {
		subject string
		header  nats.Header
	}{
		"roll everything up":   {claim, nats.Header{"Nats-Rollup": {"all"}}},
		"roll a subject up":    {claim, nats.Header{"Nats-Rollup": {"sub"}}},
		"empty the inbox":      {result, nats.Header{"Nats-Rollup": {"all"}}},
		"empty the blobs":      {digest(1), nats.Header{"Nats-Rollup": {"all"}}},
		"schedule a decision":  {result, nats.Header{"Nats-Schedule": {"@at 2020-01-01T00:00:00Z"}, "Nats-Schedule-Target": {"approval.decision.run_1.run_1-1-0"}}},
		"schedule in a bucket": {claim, nats.Header{"Nats-Schedule": {"@at 2020-01-01T00:00:00Z"}, "Nats-Schedule-Target": {"$KV.claims.tool.payments.run_1.1.0.1"}}},
		"count":                {claim, nats.Header{"Nats-Incr": {"+1"}}},
		"a batch":              {claim, nats.Header{"Nats-Batch-Id": {"b"}, "Nats-Batch-Sequence": {"1"}, "Nats-Batch-Commit": {"1"}}},
		"another stream":       {claim, nats.Header{"Nats-Expected-Stream": {"CRUMBS"}}},
	} {
		if m := a.ask(try.subject, try.header, "x"); !isError(m) {
			t.Errorf("%s: answered %s %v", name, m.Data, m.Header)
		}
	}
	for range 2 { // a blob is written once, whatever its writer says
		a.ask(digest(2), nil, "x")
	}
	if m := a.ask(digest(2), nil, "y"); !isError(m) {
		t.Errorf("a blob was written twice: %s", m.Data)
	}
	logged := len(s.Guard.Log("iolation"))
	a.send(result, a.conn.NewInbox(), nats.Header{"Nats-Trace-Dest": {"approval.decision.run_1.run_1-1-0"}, "Nats-Trace-Only": {"true"}}, "x")
	a.ask(claim, nats.Header{"Nats-Subject": {"$KV.claims.tool.payments.run_1.1.0.1"}, "Nats-Sequence": {"1"}}, `{"state":"revoked","starts":9,"at":"2026-01-01T00:00:00Z"}`)
	if c, err := s.Conn.Claims().Get(t.Context(), strings.TrimPrefix(claim, "$KV.claims.")); err != nil || c.Starts != 9 {
		t.Errorf("the server's own headers were not believed: %+v %v", c, err)
	}
	if n := s.holds("approval.decision.run_1.run_1-1-0"); n != 0 {
		t.Errorf("a trace was stored as a decision (%d refusals logged since %d)", len(s.Guard.Log("iolation")), logged)
	}
	for _, d := range changed(before, s.others()) {
		t.Errorf("changed %s", d)
	}
}

// others is what stands of payments, and in the streams that research may not write.
func (s *scene) others() map[string]string {
	s.t.Helper()
	out := map[string]string{}
	for name, subjects := range map[string][]string{"KV_" + crumbs.BucketClaims: {"$KV.claims.tool.payments.>", "$KV.claims.model.>"}, crumbs.StreamBlobs: {"blob.call.>", "blob.core.>", "blob.tool.payments.>"},
		crumbs.StreamInbox: {"approval.>", "tool.result.payments.>"}, crumbs.StreamToolCalls: {">"}, crumbs.StreamCrumbs: {">"}} {
		for _, filter := range subjects {
			n := 0
			if err := s.Conn.Visit(s.t.Context(), mesh.Scan{Stream: name, Filter: filter}, func(m *mesh.Stored) bool { n++; out[m.Subject] = string(m.Data); return true }); err != nil && name != crumbs.StreamToolCalls {
				s.t.Fatal(err)
			}
			out[name+" "+filter] = strconv.Itoa(n)
		}
	}
	return out
}
