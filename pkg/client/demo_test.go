package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/embedded"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
	"github.com/crumbmesh/crumbmesh/services/approvals"
	"github.com/crumbmesh/crumbmesh/services/modelgw"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// demo is a whole mesh in this process, for the examples: what `crumb dev` starts.
type demo struct {
	conn    *mesh.Conn
	stop    context.CancelFunc
	running sync.WaitGroup
	close   []func()
}

type payment struct {
	Amount int `json:"amount"`
}

// startDemo starts a mesh with the agent clerk, whose tool pay asks a person.
func startDemo() (*client.Client, func()) {
	ctx, stop := context.WithCancel(context.Background())
	d := &demo{stop: stop}
	store := must(os.MkdirTemp("", "crumbmesh"))
	d.close = append(d.close, func() { _ = os.RemoveAll(store) }) // a temporary folder; nothing to be done
	server := must(embedded.Start(embedded.Config{Store: store}))
	d.close = append(d.close, server.Stop)
	d.conn = must(mesh.Connect(ctx, mesh.ConnectConfig{InProcess: server, Settings: mesh.DevSettings()}))
	d.close = append(d.close, d.conn.Close)
	check(d.conn.Ensure(ctx, mesh.Topology{Groups: map[string]int{"desk": 0}, Providers: map[string]int{agent.ScriptProvider: 0}}))

	key := decision.NewKey()
	verifier := must(decision.NewVerifier(key.Public()))
	desk := must(worker.New(ctx, worker.Config{Group: "desk", Verify: verifier.Verify}, d.conn,
		tool.Define("pay", "Pay an amount.", func(_ tool.Context, p payment) (string, error) { return "paid", nil })))
	d.run(func() error { return desk.Run(ctx) })
	d.serve(func(ready func()) error {
		return orchestrator.Run(ctx, orchestrator.Config{Verify: verifier.Verify, Ready: ready}, d.conn)
	})
	d.serve(func(ready func()) error { return modelgw.Run(ctx, modelgw.Config{Ready: ready}, d.conn) })
	d.serve(func(ready func()) error {
		return approvals.Run(ctx, approvals.Config{Key: key, Ready: ready}, d.conn)
	})
	c := client.New(d.conn)
	must(c.Apply(ctx, crumbs.AgentsApply{Agents: []json.RawMessage{must(json.Marshal(clerk()))}, Groups: map[string]crumbs.Group{"desk": {}}}))
	return c, d.end
}

func clerk() *agent.Definition {
	return &agent.Definition{
		ID: "clerk", Model: agent.Model{Provider: agent.ScriptProvider, Model: "main"},
		Output: agent.Output{Format: agent.FormatText}, Steps: agent.Steps{Max: 5},
		Permissions: perm.Lists{Ask: []string{"tool:pay"}},
		Tools:       []agent.Tool{{Name: "pay", Worker: &agent.Worker{Group: "desk", Tool: "pay"}, Effect: crumbs.EffectOnce}},
		Scripts: map[string]agent.Script{"main": {Turns: []agent.Turn{
			{ToolCalls: []agent.ScriptCall{{Name: "tool_pay", Args: json.RawMessage(`{"amount":20}`)}}},
			{Text: "It is paid."},
		}}},
	}
}

// serve starts a service and waits until it is ready.
func (d *demo) serve(run func(ready func()) error) {
	ready := make(chan struct{})
	d.run(func() error { return run(func() { close(ready) }) })
	<-ready
}

func (d *demo) run(f func() error) {
	d.running.Go(func() {
		if err := f(); err != nil && !errors.Is(err, context.Canceled) {
			panic(err)
		}
	})
}

func (d *demo) end() {
	d.stop()
	d.running.Wait()
	for i := len(d.close) - 1; i >= 0; i-- {
		d.close[i]()
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
