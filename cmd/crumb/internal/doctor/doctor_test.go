package doctor

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	metricapi "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/crumbmesh/crumbmesh/internal/fleet"
	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/services/approvals"
)

const group = "demo"

type scene struct {
	*fleet.Fleet
	t                             *testing.T
	orchestrator, approvals, hand *fleet.Service
}

func lookup() tool.Tool {
	return tool.Define("lookup", "Look up.", func(tool.Context, struct{}) (string, error) { return "1", nil }, tool.Effect(crumbs.EffectPure))
}

// healthy is a mesh in which all is well.
func healthy(t *testing.T) scene {
	t.Helper()
	f := fleet.New(t, meshtest.Start(t, meshtest.WithTopology([]string{group}, []string{"script"})))
	s := scene{Fleet: f, t: t}
	f.Gateway()
	s.approvals = f.Approvals()
	s.hand = f.Tools(group, lookup())
	s.orchestrator = f.Orchestrator()
	f.Apply([]string{group}, clerk())
	return s
}

func clerk() *agent.Definition {
	return &agent.Definition{ID: "clerk", Model: agent.Model{Provider: "script", Model: "main"}, Steps: agent.Steps{Max: 3},
		Tools:   []agent.Tool{{Name: "lookup", Worker: &agent.Worker{Group: group, Tool: "lookup"}}},
		Scripts: map[string]agent.Script{"main": {Turns: []agent.Turn{{ToolCalls: []agent.ScriptCall{{Name: "tool_lookup"}}}, {Text: "Done."}}}}}
}

func (s scene) examine() []Finding {
	s.t.Helper()
	f, err := Examine(context.Background(), s.Mesh.Connect("doctor"))
	if err != nil {
		s.t.Fatal(err)
	}
	return Diagnose(f)
}

// wants looks for a finding of a check whose text has all of the words, and for
// the command that mends it.
func wants(t *testing.T, found []Finding, check string, level Level, command string, words ...string) {
	t.Helper()
	for _, f := range found {
		if f.Check == check && f.Level == level && strings.HasPrefix(f.Command, command) &&
			!slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(f.What, w) }) {
			if f.Why == "" {
				t.Errorf("%+v does not say why", f)
			}
			return
		}
	}
	t.Errorf("no %s finding of %s with %v and `%s`; found: %+v", level, check, words, command, found)
}

func TestDoctor_HealthyMesh(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s.Start("clerk", "run_1")
	s.WaitEnd("run_1")
	s.WaitTrimmed("run_1")
	if found := s.examine(); !Healthy(found) || len(found) != 1 || found[0].Check != CheckServer {
		t.Errorf("found %+v", found)
	}
}

func TestDoctor_MissingAndChanged(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	js := s.Mesh.Conn.JS
	s.orchestrator.Stop() // it would bring DELTAS back
	if err := js.DeleteStream(t.Context(), crumbs.StreamDeltas); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteConsumer(t.Context(), crumbs.StreamInbox, mesh.ConsumerEvents); err != nil {
		t.Fatal(err)
	}
	c, err := js.Consumer(t.Context(), crumbs.StreamRequests, mesh.ConsumerRequests)
	if err != nil {
		t.Fatal(err)
	}
	cfg := c.CachedInfo().Config
	cfg.AckWait = time.Minute
	if _, err := js.UpdateConsumer(t.Context(), crumbs.StreamRequests, cfg); err != nil {
		t.Fatal(err)
	}
	found := s.examine()
	wants(t, found, CheckTopology, Broken, "crumb init", "stream DELTAS", "missing")
	wants(t, found, CheckTopology, Broken, "crumb init", "consumer events of INBOX", "missing")
	wants(t, found, CheckTopology, Warning, "crumb init", "consumer requests of REQUESTS", "ack wait is 1m0s, expected 4s")
	wants(t, found, CheckServices, Broken, "crumb orchestrator", "no orchestrator answers")
}

func TestDoctor_NobodyWorks(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s.hand.Stop()
	s.approvals.Stop()
	s.Start("clerk", "run_1")
	s.WaitType("run_1", crumbs.TypeToolCalled)
	if _, err := s.Mesh.Conn.Publish(t.Context(), &nats.Msg{Subject: "run.control.run_9", Data: []byte("no json")}); err != nil {
		t.Fatal(err)
	}
	s.Until("the bad control is a dead letter", func() bool { held, _ := s.Stream(crumbs.StreamDead); return held == 1 })
	found := s.examine()
	wants(t, found, CheckConsumers, Broken, "start your worker of group demo", "consumer group_demo of TOOLCALLS", "nobody asks")
	wants(t, found, CheckWorkers, Broken, "start your worker of group demo", "1 calls and no live worker")
	wants(t, found, CheckServices, Broken, "crumb approvals", "no approvals answers")
	wants(t, found, CheckDead, Warning, "crumb dead list", "1 of 1 dead letters are open")
	s.orchestrator.Stop()
	if err := s.Request(crumbs.RunRequest{AgentID: "clerk", RunID: "run_2"}); err != nil {
		t.Fatal(err)
	}
	wants(t, s.examine(), CheckConsumers, Broken, "crumb orchestrator", "consumer requests of REQUESTS", "nobody asks")
}

func TestDoctor_GroupWithoutQueue(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s.hand.Stop()
	if err := s.Mesh.Conn.JS.DeleteConsumer(t.Context(), crumbs.StreamToolCalls, mesh.GroupConsumer(group)); err != nil {
		t.Fatal(err)
	}
	wants(t, s.examine(), CheckTopology, Broken, "crumb init --group demo", "consumer group_demo", "missing")
}

// What stands where no queue is is named with the queue that would take it, also for the
// operator's role and while no orchestrator moves it.
func TestDoctor_Strays(t *testing.T) {
	t.Parallel()
	m := meshtest.StartGuarded(t, []string{group}, []string{"script"})
	for _, subject := range []string{"tool.call.nope.run_1", "tool.call.nope.run_2", "tool.call.demo.run_1", "model.call.none.run_1", "tool.call.demo"} {
		if _, err := m.Conn.Publish(t.Context(), &nats.Msg{Subject: subject, Data: []byte("a mistake")}); err != nil {
			t.Fatal(err)
		}
	}
	operator := m.ConnectAs(access.RoleOperator)
	f, err := Examine(t.Context(), operator)
	if err != nil {
		t.Fatal(err)
	}
	found := Diagnose(f)
	wants(t, found, CheckConsumers, Warning, "crumb dead list; if the queue is meant to be there: crumb init --group nope", "2 messages of TOOLCALLS stand on tool.call.nope.*, which no consumer takes")
	wants(t, found, CheckConsumers, Warning, "crumb dead list; if the queue is meant to be there: crumb init --provider none", "1 messages of MODELCALLS stand on model.call.none.*,")
	wants(t, found, CheckConsumers, Warning, "crumb dead list", "1 messages of TOOLCALLS stand on tool.call.demo, which")
	if len(f.Strays) != 3 || operator.Violations() != 0 {
		t.Errorf("strays %+v; %v", f.Strays, operator.Health())
	}
}

// A record of a newer release turns the orchestrator's readiness red, and whoever
// asks it hears why.
func TestDoctor_RecordOfANewerRelease(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	record, err := json.Marshal(map[string]any{"version": 999, "decision": 1, "run": map[string]any{"id": "run_1"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Mesh.Conn.Bucket(crumbs.BucketRuns).Put(t.Context(), "run_1", record); err != nil {
		t.Fatal(err)
	}
	s.Cancel("run_1")
	s.Until("the orchestrator met the record", func() bool {
		r, _, err := s.Mesh.Conn.Ping(t.Context(), crumbs.EndpointMeshGet)
		return err == nil && r.Problem != nil
	})
	wants(t, s.examine(), CheckServices, Broken, "upgrade that process", string(fault.StateTooNew))
}

// A group whose worker never ran is told apart from one that is scaled to zero: the
// runs of its agents fail.
func TestDoctor_GroupThatNeverRan(t *testing.T) {
	t.Parallel()
	f := fleet.New(t, meshtest.Start(t, meshtest.WithTopology([]string{group}, []string{"script"})))
	s := scene{Fleet: f, t: t}
	f.Gateway()
	f.Approvals()
	f.Orchestrator()
	f.Apply([]string{group}, clerk())
	wants(t, s.examine(), CheckWorkers, Warning, "start your worker of group demo", "group demo has no worker", "1 of its tools were never announced")
	f.Tools(group, lookup()).Stop()
	var found []Finding
	f.Until("the tool is known", func() bool {
		found = s.examine()
		return !slices.ContainsFunc(found, func(f Finding) bool { return f.Level == Warning })
	})
	wants(t, found, CheckWorkers, Hint, "start your worker of group demo", "group demo has no worker, and no call waits")
}

// Who serves a group follows from the kinds of its tools.
func TestDiagnose_WhoServesAGroup(t *testing.T) {
	t.Parallel()
	const toolexec, own = "crumb toolexec --group g --dir DIR", "start your worker of group g"
	for want, tools := range map[string][]crumbs.MeshTools{
		toolexec:                  {{Group: "g", Exec: 2}, {Group: "h", Worker: 1}},
		own:                       {{Group: "g", Worker: 1}},
		toolexec + ", and " + own: {{Group: "g", Exec: 1, Worker: 1}},
		own + ", or, if its tools are commands of the project, " + toolexec: nil, // an orchestrator of an older release does not say
	} {
		d := diagnosis{Facts: Facts{View: &crumbs.MeshView{Tools: tools}}}
		if got := d.serverOf(mesh.GroupConsumer("g")); got != want {
			t.Errorf("%+v: %s, expected %s", tools, got, want)
		}
	}
}

// What cannot be broken on a server of the test is judged from facts.
func TestDiagnose_Facts(t *testing.T) {
	t.Parallel()
	now := time.Now()
	well := func() Facts {
		return Facts{Now: now, Release: "1.0.0", Streams: []mesh.StreamState{{Name: "CRUMBS", Replicas: 1}}, Server: mesh.Server{Version: "2.15.3", JetStream: true, ClockRead: true, URL: "nats://a"},
			View: &crumbs.MeshView{}, Last: map[string]uint64{crumbs.StreamInbox: 10},
			Pings: []Ping{{Replica: mesh.Replica{Service: "approvals", Instance: "a", Version: "1.0.0"}}, {Replica: mesh.Replica{Service: "orchestrator", Instance: "b", Version: "1.0.0"}}}}
	}
	if found := Diagnose(well()); !Healthy(found) {
		t.Fatalf("well: %+v", found)
	}
	for name, c := range map[string]struct {
		change func(*Facts)
		check  string
		level  Level
		words  []string
	}{
		"old server": {func(f *Facts) { f.Server.Version = "2.12.9" }, CheckServer, Broken, []string{"2.12.9", "2.14.6"}},
		"no mesh": {func(f *Facts) {
			f.View, f.Streams = nil, nil
			f.Drift = []mesh.Drift{{What: "stream INBOX", Missing: true}}
		}, CheckTopology, Broken, []string{"no mesh"}},
		"no JetStream": {func(f *Facts) { f.Server.JetStream = false }, CheckJetStream, Broken, []string{"not enabled"}},
		"behind": {func(f *Facts) {
			f.Drift = []mesh.Drift{{What: "stream CRUMBS", Behind: "replica nats-2 is behind"}, {What: "stream INBOX", Behind: "replica nats-2 is behind"}}
		}, CheckTopology, Warning, []string{"replica nats-2 is behind: CRUMBS, INBOX"}},
		"one replica":  {func(f *Facts) { f.Server.Cluster = "c"; f.Streams = []mesh.StreamState{{Name: "INBOX", Replicas: 1}} }, CheckTopology, Warning, []string{"one replica"}},
		"full INBOX":   {func(f *Facts) { f.Streams = []mesh.StreamState{{Name: "INBOX", Bytes: 9 << 20, Limit: 10 << 20}} }, CheckStorage, Broken, []string{"INBOX holds 9 MiB of 10"}},
		"full queue":   {func(f *Facts) { f.Streams = []mesh.StreamState{{Name: "TOOLCALLS", Bytes: 9 << 20, Limit: 10 << 20}} }, CheckStorage, Warning, []string{"TOOLCALLS"}},
		"full account": {func(f *Facts) { f.Server.Stored, f.Server.StoredMax = 9<<20, 10<<20 }, CheckStorage, Warning, []string{"account"}},
		"ack floor":    {func(f *Facts) { f.Loads = []mesh.Load{{Stream: "INBOX", Consumer: "events", AckFloor: 12, Waiting: 1}} }, CheckConsumers, Broken, []string{"settled up to 12", "ends at 10"}},
		"saturated": {func(f *Facts) {
			f.Loads = []mesh.Load{{Stream: "TOOLCALLS", Consumer: "group_g", Pending: 3, InHand: 5, MaxInHand: 5}}
		}, CheckConsumers, Warning, []string{"5", "3 wait"}},
		"slow service": {func(f *Facts) {
			f.Loads = []mesh.Load{{Stream: "INBOX", Consumer: "events", Pending: 3, InHand: 5, MaxInHand: 1000, AckFloor: 4}}
			f.View.Queues = []crumbs.MeshQueue{{Stream: "INBOX", Consumer: "events", Subject: "tool.result.g.r.c", Sequence: 5, Stored: crumbs.At(now.Add(-time.Minute))}}
		}, CheckConsumers, Warning, []string{"oldest message (tool.result.g.r.c) is 1m0s old"}},
		"below the floor": {func(f *Facts) {
			f.Loads = []mesh.Load{{Stream: "TOOLCALLS", Consumer: "group_g", Waiting: 1}}
			f.View.Queues = []crumbs.MeshQueue{{Stream: "TOOLCALLS", Consumer: "group_g", Subject: "tool.call.g.r", Sequence: 5, Stored: crumbs.At(now.Add(-time.Minute))}}
		}, CheckConsumers, Warning, []string{"below its ack floor", "sequence 5"}},
		"two releases": {func(f *Facts) { f.Pings[0].Version = "0.9.0" }, CheckVersions, Warning, []string{"0.9.0 (approvals)", "1.0.0 (orchestrator)"}},
		"my clock": {func(f *Facts) {
			f.Server.Ahead = 3 * time.Second
			f.Pings[0].Ahead, f.Pings[1].Ahead = f.Server.Ahead, f.Server.Ahead
		}, CheckClocks, Warning, []string{"this machine is 3s behind"}},
		"a service clock": {func(f *Facts) { f.Pings[0].Ahead = -2 * time.Second }, CheckClocks, Warning, []string{"approvals is 2s behind"}},
		"a worker clock": {func(f *Facts) {
			f.View.Workers = []crumbs.MeshWorker{{Worker: "w", Version: "1.0.0", At: crumbs.At(now.Add(5 * time.Second)), Stored: crumbs.At(now)}}
		}, CheckClocks, Warning, []string{"worker w is 5s ahead"}},
		"refused service": {func(f *Facts) { f.Pings[1].Violations = 4 }, CheckAccess, Broken, []string{"orchestrator 4"}},
		"refused worker":  {func(f *Facts) { f.View.Workers = []crumbs.MeshWorker{{Worker: "w", Version: "1.0.0", Violations: 2}} }, CheckAccess, Broken, []string{"worker w 2"}},
		"a key nobody trusts": {func(f *Facts) {
			f.View.Signer = &crumbs.MeshSigner{KeyID: "0011", Public: "PUB", Since: crumbs.At(now), Untrusted: true}
		}, CheckAnswers, Broken, []string{"0011", "PUB"}},
		"answers nobody believes": {func(f *Facts) {
			for i := range 7 {
				f.View.Refused = append(f.View.Refused, crumbs.MeshAnswer{CheckpointID: crumbs.ToolCallID("run_1", 1, i), RunID: "run_1", KeyID: "0011", Untrusted: true})
			}
		}, CheckAnswers, Broken, []string{"7 questions are decided, signed with a key that nobody here trusts (kid 0011)", "run_1.1.4, …"}},
		"a forged answer": {func(f *Facts) {
			f.View.Refused = []crumbs.MeshAnswer{{CheckpointID: "run_1.1.0", RunID: "run_1", KeyID: "0011"}}
		}, CheckAnswers, Broken, []string{"1 questions", "not what key 0011 signed"}},
		"unread": {func(f *Facts) { f.Unread = []Unread{{"consumers", fault.New(fault.Unavailable, "no leader")}} }, CheckTopology, Broken, []string{"consumers cannot be read", "no leader"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := well()
			c.change(&f)
			found := Diagnose(f)
			wants(t, found, c.check, c.level, "", c.words...)
			if c.level == Broken && Healthy(found) {
				t.Error("it counts as healthy")
			}
		})
	}
}

// A warning is none of a broken mesh: a letter that waits for somebody is one for a
// day, then a hint; one that was dealt with is nothing.
func TestDiagnose_DeadLettersAreNoBreakage(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		dead crumbs.MeshDead
		want []Level
	}{
		"open since an hour": {crumbs.MeshDead{Letters: 3, Open: 1, Newest: crumbs.At(now.Add(-time.Hour))}, []Level{Warning}},
		"open since a week":  {crumbs.MeshDead{Letters: 3, Open: 3, Newest: crumbs.At(now.Add(-7 * 24 * time.Hour))}, []Level{Hint}},
		"none is open":       {crumbs.MeshDead{Letters: 3}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := Diagnose(Facts{Now: now, Release: "1.0.0", Server: mesh.Server{Version: "2.15.3", JetStream: true, ClockRead: true}, Streams: []mesh.StreamState{{Name: "CRUMBS", Replicas: 1}},
				View: &crumbs.MeshView{Dead: c.dead}, Pings: []Ping{{Replica: mesh.Replica{Service: "approvals", Version: "1.0.0"}}, {Replica: mesh.Replica{Service: "orchestrator", Version: "1.0.0"}}}})
			var got []Level
			for _, f := range found {
				if f.Check == CheckDead {
					got = append(got, f.Level)
				}
			}
			if !slices.Equal(got, c.want) || !Healthy(found) {
				t.Errorf("levels %v, want %v; healthy: %t; found %+v", got, c.want, Healthy(found), found)
			}
		})
	}
}

// With the credentials of the operator's role, on a server that lets nobody do more
// than the role says, the doctor sees what it needs, and the orchestrator's metrics
// and explanations are made with the orchestrator's own; nobody is refused anything.
func TestDoctor_AsTheOperatorsRole(t *testing.T) {
	t.Parallel()
	m := meshtest.StartGuarded(t, []string{group}, []string{"script"})
	reader := metric.NewManualReader()
	m.Observe(func(string) (metricapi.MeterProvider, trace.TracerProvider) {
		return metric.NewMeterProvider(metric.WithReader(reader)), nil
	})
	f := fleet.New(t, m)
	orchestrator := f.Orchestrator()
	m.Observe(nil)
	f.Gateway()
	f.Approvals()
	hand := f.Tools(group, lookup())
	f.Apply([]string{group}, clerk())
	operator := m.ConnectAs(access.RoleOperator)
	all, err := Examine(t.Context(), operator)
	if err != nil {
		t.Fatal(err)
	}
	if found := Diagnose(all); !Healthy(found) {
		t.Errorf("well, as the operator: %+v", found)
	}
	if err := reader.Collect(t.Context(), &metricdata.ResourceMetrics{}); err != nil {
		t.Error(err)
	}
	var x crumbs.RunExplained
	if err := operator.Request(t.Context(), crumbs.EndpointRunsExplain, crumbs.RunGet{RunID: "run_1"}, &x); fault.CodeOf(err) != fault.RunNotFound {
		t.Error(err)
	}
	hand.Stop()
	if err := m.Conn.JS.DeleteConsumer(t.Context(), crumbs.StreamToolCalls, mesh.GroupConsumer(group)); err != nil {
		t.Fatal(err)
	}
	if all, err = Examine(t.Context(), operator); err != nil {
		t.Fatal(err)
	}
	wants(t, Diagnose(all), CheckTopology, Broken, "crumb init", "consumer group_demo", "missing")
	for name, c := range map[string]*mesh.Conn{"the operator": operator, "the orchestrator": orchestrator.Conn} {
		if n := c.Violations(); n != 0 {
			t.Errorf("NATS refused %s %d operations: %v", name, n, c.Health())
		}
	}
}

// A mesh whose orchestrator does not believe the key of its approvals service is broken
// before anybody answers, and the doctor, as the operator's role, names the key.
func TestDoctor_KeyThatNobodyTrusts(t *testing.T) {
	t.Parallel()
	m := meshtest.StartGuarded(t, []string{group}, []string{"script"})
	f := fleet.New(t, m)
	orchestrator := f.Orchestrator()
	f.Gateway()
	f.Tools(group, lookup())
	key := decision.NewKey()
	desk := f.Approvals(func(c *approvals.Config) { c.Key = key })
	f.Apply([]string{group}, clerk())
	all, err := Examine(t.Context(), m.ConnectAs(access.RoleOperator))
	if err != nil {
		t.Fatal(err)
	}
	wants(t, Diagnose(all), CheckAnswers, Broken, "put it into CRUMB_APPROVALS_PUBKEY", "kid "+key.ID(), key.Public())
	for name, c := range map[string]*mesh.Conn{"approvals": desk.Conn, "the orchestrator": orchestrator.Conn} {
		if n := c.Violations(); n != 0 {
			t.Errorf("NATS refused %s %d operations: %v", name, n, c.Health())
		}
	}
}
