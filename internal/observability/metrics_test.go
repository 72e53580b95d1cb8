package observability_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/fleet"
	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry/instrument"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

const demoWorker = "demo-1"

// serve starts every service once, each measuring for itself.
func serve(t *testing.T, m *meters) *fleet.Fleet {
	t.Helper()
	f := fleet.New(t, meshtest.Start(t, meshtest.WithTopology([]string{groupDemo, groupIdle}, []string{"script"}), meshtest.WithTelemetry(m.telemetry)))
	f.Gateway()
	f.Approvals()
	f.Worker(worker.Config{Group: groupDemo, Name: demoWorker}, tools()...)
	f.Orchestrator()
	return f
}

// What one run is, in the numbers of every service; the names beside it are those
// of the table, and no other.
func TestMetrics_OneRunInNumbers(t *testing.T) {
	t.Parallel()
	m := newMeters()
	f := serve(t, m)
	f.Apply([]string{groupDemo}, clerk())
	f.Start("clerk", "run_1")
	f.Start("nobody-made-up-7", "run_2")
	f.WaitEnd("run_2")
	f.WaitSuspended("run_1")
	waiting := m.read(t, "orchestrator")
	waiting.want(t, map[string]float64{
		"crumbmesh.runs.started{clerk}": 1, "crumbmesh.runs.started{_unknown}": 1, "crumbmesh.runs.ended{_unknown,failed,AGENT_NOT_FOUND}": 1,
		"crumbmesh.runs.current{suspended}": 1, "crumbmesh.runs.current{running}": 0, "crumbmesh.approvals.open{}": 1,
		"crumbmesh.calls.blocked{clerk}": 1, "crumbmesh.consumer.pending{TOOLCALLS,group_demo}": 0,
		"crumbmesh.queue.workers{toolexec,demo}": 1, "crumbmesh.queue.workers{toolexec,idle}": 0, "crumbmesh.queue.workers{modelgw,script}": 1,
	})
	if _, err := f.Approve("run_1.1.3"); err != nil {
		t.Fatal(err)
	}
	f.WaitEnd("run_1")
	f.WaitTrimmed("run_1")
	orchestrator, gateway, desk, hand := m.read(t, "orchestrator"), m.read(t, "modelgw"), m.read(t, "approvals"), m.read(t, demoWorker)
	orchestrator.want(t, map[string]float64{
		"crumbmesh.runs.ended{clerk,completed,}": 1, "crumbmesh.run.duration{clerk,completed}": 1, "crumbmesh.step.duration{clerk,ok}": 2,
		"crumbmesh.call.duration{tool_lookup,ok}": 1, "crumbmesh.call.duration{tool_fail,error}": 1, "crumbmesh.call.duration{tool_pay,ok}": 1,
		"crumbmesh.approval.wait{approval,approve}": 1, "crumbmesh.tokens{clerk,script,main,input}": 300, "crumbmesh.tokens{clerk,script,main,output}": 25,
		"crumbmesh.decisions{decision}": 1, "crumbmesh.decisions{modelResult}": 2, "crumbmesh.decisions{callResult}": 3,
	})
	gateway.want(t, map[string]float64{"gen_ai.client.operation.duration{chat,script,main,}": 2, "gen_ai.client.token.usage{chat,script,main,input}": 2})
	hand.want(t, map[string]float64{
		"crumbmesh.tool.duration{tool_lookup,demo,ok}": 1, "crumbmesh.tool.duration{tool_fail,demo,error}": 1, "crumbmesh.tool.in_hand{demo}": 0,
		"crumbmesh.consumer.wait{TOOLCALLS,group_demo}": 3, "crumbmesh.loop.healthy{TOOLCALLS,group_demo}": 1, "crumbmesh.nats.permission_violations{}": 0,
	})
	desk.want(t, map[string]float64{"crumbmesh.approvals.decided{approve,cli}": 1})
}

// A call that no worker takes shows in its group's queue, with its age, and the
// group without workers; calls, late results, dead letters and conflicts are told.
func TestMetrics_TroubleInNumbers(t *testing.T) {
	t.Parallel()
	m := newMeters()
	f := serve(t, m)
	hand := f.Worker(worker.Config{Group: groupIdle, Name: "idle-1"}, tools()...)
	f.Apply([]string{groupDemo, groupIdle}, scripted("stuck", nil, []agent.Tool{workerTool(groupIdle, "lookup")}, agent.Turn{ToolCalls: []agent.ScriptCall{call("lookup")}}, agent.Turn{Text: "Done."}))
	hand.Stop() // what it announced stays
	f.Start("stuck", "run_1")
	f.WaitType("run_1", crumbs.TypeToolCalled)
	bad := &nats.Msg{Subject: "run.control.run_9", Data: []byte("no json")}
	if _, err := f.Mesh.Conn.Publish(context.Background(), bad); err != nil {
		t.Fatal(err)
	}
	const dead = "crumbmesh.dead_letters{INBOX,INVALID_MESSAGE}"
	f.Until("the dead letter is counted", func() bool { return m.read(t, "orchestrator")[dead].value == 1 })
	f.Until("the letter and its message are settled", func() bool {
		return m.read(t, "orchestrator")["crumbmesh.consumer.messages{INBOX,events,dead}"].value == 1
	})
	late := crumbs.ToolResult{Type: crumbs.TypeToolResult, RunID: "run_1", CallID: "run_1.1.0", Attempt: 7, Group: groupIdle, Worker: "w", Delivery: 1, Status: crumbs.StatusOK, Result: []byte("1")}
	f.Result(late)
	f.Until("the late result is counted", func() bool {
		return m.read(t, "orchestrator")["crumbmesh.results.late{callResult}"].value == 1
	})
	m2 := newGaugeReader(t, f)
	m2.want(t, map[string]float64{
		"crumbmesh.consumer.pending{TOOLCALLS,group_idle}": 1, "crumbmesh.consumer.in_hand{TOOLCALLS,group_idle}": 0,
		"crumbmesh.queue.workers{toolexec,idle}": 0, "crumbmesh.stream.messages{DEADLETTER}": 1, "crumbmesh.stream.messages{TOOLCALLS}": 1,
	})
	if age := m2["crumbmesh.consumer.oldest.age{TOOLCALLS,group_idle}"]; age.value <= 0 {
		t.Errorf("the oldest call is %v old", age.value)
	}
	if limit := m2["crumbmesh.stream.limit{INBOX}"]; limit.value != float64(f.Mesh.Settings().InboxBytes) {
		t.Errorf("the limit of INBOX is %v", limit.value)
	}
	if fault.CodeOf(hand.Conn.Health()) != fault.Unavailable {
		t.Error("a closed connection is healthy")
	}
}

// newGaugeReader is a fresh replica's view: nothing of it is cached.
func newGaugeReader(t *testing.T, f *fleet.Fleet) readings {
	t.Helper()
	m := newMeters()
	f.Mesh.Observe(m.telemetry)
	f.Orchestrator()
	return m.read(t, "orchestrator")
}

// Whatever is called by whomever, one instrument has at most a bounded number of
// series; what is beyond is counted together.
func TestMetrics_LabelsAreBounded(t *testing.T) {
	t.Parallel()
	m := newMeters()
	provider, _ := m.telemetry("flood")
	c := instrument.NewCounter(provider.Meter("test"), instrument.RunsStarted)
	const flood = 5000
	for i := range flood {
		c.Add(t.Context(), 1, string(rune('a'+i%26))+crumbs.CallID("x").Attempt(i))
	}
	all := m.read(t, "flood")
	if len(all) > 1001 {
		t.Errorf("%d series", len(all))
	}
	sum := 0.0
	for _, s := range all {
		sum += s.value
	}
	if sum != flood || all["crumbmesh.runs.started{"+instrument.Other+"}"].value == 0 {
		t.Errorf("%v of %d are counted", sum, flood)
	}
}
