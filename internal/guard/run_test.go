package guard_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/internal/fleet"
	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

const (
	payments = "payments"
	research = "research"

	report = "All is read." // that the tool of research stores
)

type textIn struct {
	Text string `json:"text"`
}

func workerTool(group, name string) agent.Tool {
	return agent.Tool{Name: name, Worker: &agent.Worker{Group: group, Tool: name}, Effect: ""}
}

// clerk reads something large in one group, streams it, and, after a person said
// yes, pays in the other with a large argument.
func clerk() *agent.Definition {
	large, _ := json.Marshal(textIn{strings.Repeat("a", 300<<10)})
	return &agent.Definition{
		ID: "clerk", Model: agent.Model{Provider: "script", Model: "main"}, Output: agent.Output{Format: agent.FormatText}, Steps: agent.Steps{Max: 5},
		Permissions: perm.Lists{Ask: []string{"tool:pay"}},
		Tools:       []agent.Tool{workerTool(research, "read"), workerTool(payments, "pay")},
		Scripts: map[string]agent.Script{"main": {Turns: []agent.Turn{
			{Chunks: []string{"Read", "ing."}, ToolCalls: []agent.ScriptCall{{Name: "tool_read", Args: large}}},
			{Text: "Paying.", ToolCalls: []agent.ScriptCall{{Name: "tool_pay", Args: json.RawMessage(`{"text":"42"}`)}}},
			{Text: "Done."},
		}}},
	}
}

// serve starts every service of a guarded mesh with the credentials of its role.
func serve(t *testing.T) (*fleet.Fleet, []*fleet.Service) {
	t.Helper()
	f := fleet.New(t, meshtest.StartGuarded(t, []string{payments, research}, []string{"script"}))
	services := []*fleet.Service{
		f.Gateway(), f.Approvals(), f.Orchestrator(),
		f.Tools(payments, tool.Define("pay", "Pay.", func(_ tool.Context, in textIn) (string, error) { return "paid " + in.Text, nil })),
		f.Tools(research, tool.Define("read", "Read.", func(c tool.Context, _ textIn) (string, error) {
			_, err := c.Files.Put(c, "report.txt", "text/plain", strings.NewReader(report))
			return strings.Repeat("r", 400<<10), err
		})),
	}
	return f, services
}

func as(t *testing.T, f *fleet.Fleet, role string) (*client.Client, *mesh.Conn) {
	t.Helper()
	conn := f.Mesh.ConnectAs(role)
	return client.New(conn), conn
}

// A run with two groups, large arguments and results, a file, a person's approval, deltas
// and dead letters, and another one that is cancelled: every role does its part,
// and NATS refuses nobody anything.
func TestGuarded_EveryRoleDoesItsWork(t *testing.T) {
	t.Parallel()
	f, services := serve(t)
	ctx := t.Context()
	var all []*mesh.Conn
	for _, s := range services {
		all = append(all, s.Conn)
	}
	operator, conn := as(t, f, access.RoleOperator)
	all = append(all, conn)
	body, err := json.Marshal(clerk())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operator.Apply(ctx, crumbs.AgentsApply{Agents: []json.RawMessage{body}, Groups: map[string]crumbs.Group{payments: {}, research: {}}}); err != nil {
		t.Fatal(err)
	}
	app, appConn := as(t, f, access.RoleClient)
	all = append(all, appConn)
	person, conn := as(t, f, access.RoleApprover)
	all = append(all, conn)
	run, err := app.Start(ctx, client.Request{Agent: "clerk", RunID: "run_1"})
	if err != nil {
		t.Fatal(err)
	}
	var deltas int
	var asked crumbs.HumanRequired
	var after uint64
	for item, err := range app.Follow(ctx, run.ID, client.Started("clerk"), client.WithDeltas(), client.UntilSuspended()) {
		if err != nil {
			t.Fatal(err)
		}
		if item.Delta {
			deltas++
			continue
		}
		deltas += item.DeltasMissing // a loaded machine may be late with them
		after = item.Seq
		if item.Type == crumbs.TypeHumanRequired {
			if err := json.Unmarshal(item.Raw, &asked); err != nil {
				t.Fatal(err)
			}
		}
	}
	if live, _, err := appConn.Batch(ctx, mesh.Scan{Stream: crumbs.StreamDeltas, Filter: crumbs.RunDeltasFilter(run.ID)}); err != nil || len(live) == 0 {
		t.Errorf("%d deltas are to be read, %v", len(live), err)
	}
	if deltas == 0 || asked.CheckpointID == "" {
		t.Fatalf("%d deltas, question %q", deltas, asked.CheckpointID)
	}
	if _, err := person.Resume(ctx, asked.CheckpointID, client.Approve(asked, crumbs.Principal{Issuer: "local", Subject: "ada"})); err != nil {
		t.Fatal(err)
	}
	if page, err := person.Approvals(ctx, decision.Query{}); err != nil || len(page.Approvals) != 1 {
		t.Fatalf("%+v %v", page, err)
	}
	outcome, err := app.Wait(ctx, run.ID, client.After(after))
	if err != nil || string(outcome.Output) != `"Reading.Paying.Done."` {
		t.Fatalf("%+v %v", outcome, err)
	}
	if len(outcome.Files) != 1 {
		t.Fatalf("%+v", outcome.Files)
	}
	for name, reader := range map[string]*client.Client{access.RoleClient: app, access.RoleOperator: operator, access.RoleApprover: person} {
		if got, err := reader.File(ctx, outcome.Files[0].URI); err != nil || string(got) != report {
			t.Errorf("%s reads %q of the file, %v", name, got, err)
		}
		gone := strings.Replace(outcome.Files[0].URI, "run_1", "run_9", 1)
		if got, err := reader.File(ctx, gone); fault.CodeOf(err) != fault.FileNotFound {
			t.Errorf("%s reads %q of a file that is none, %v", name, got, err)
		}
	}
	if _, err := app.Start(ctx, client.Request{Agent: "clerk", RunID: "run_2"}); err != nil {
		t.Fatal(err)
	}
	for _, err := range app.Follow(ctx, "run_2", client.Started("clerk"), client.UntilSuspended()) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := operator.Cancel(ctx, "run_2", "enough"); err != nil {
		t.Fatal(err)
	}
	f.WaitEnd("run_2")
	for _, ask := range []func() error{
		func() error { _, err := app.Runs(ctx, crumbs.RunList{}); return err },
		func() error { _, err := app.Tools(ctx); return err },
		func() error { _, err := app.Agents(ctx); return err },
	} {
		if err := ask(); err != nil {
			t.Error(err)
		}
	}
	for _, c := range all {
		if n := c.Violations(); n != 0 {
			t.Errorf("%s was refused %d operations: %v", c.NATS.Opts.Name, n, c.Health())
		}
	}
	if lines := f.Mesh.Guard.Log("iolation"); len(lines) > 0 {
		t.Errorf("the server refused: %s", strings.Join(lines, "\n"))
	}
}
