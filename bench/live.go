package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
	"github.com/crumbmesh/crumbmesh/services/approvals"
	"github.com/crumbmesh/crumbmesh/services/modelgw"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// The agents of the bench: clerk looks a key up, cashier asks before it pays.
const (
	clerk   crumbs.AgentID = "clerk"
	cashier crumbs.AgentID = "cashier"
)

// live is the real mesh: every service with a connection of its own, as in a
// deployment, in this process.
type live struct {
	*place
	key      decision.Key
	verifier *decision.Verifier
	stopping context.CancelFunc
	services *errgroup.Group
	called   func(tool.Context) // the start of a tool
}

// parts says which services run here.
type parts struct {
	orchestrator bool
	port         int                // of the listener
	called       func(tool.Context) // nil: nothing
	storage      storage
}

func newLive(ctx context.Context, dir, name string, with parts) (*live, error) {
	p, err := newPlace(ctx, dir, name, with.port, with.storage)
	if err != nil {
		return nil, err
	}
	l := &live{place: p, key: decision.NewKey(), called: with.called}
	if l.verifier, err = decision.NewVerifier(l.key.Public()); err != nil {
		return nil, err
	}
	if l.called == nil {
		l.called = func(tool.Context) {}
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stopping, l.services = stop, &errgroup.Group{}
	if with.orchestrator {
		err = l.serve(serving, "orchestrator", func(ctx context.Context, c *mesh.Conn, ready func()) error {
			return orchestrator.Run(ctx, orchestrator.Config{Verify: l.verifier.Verify, Ready: ready}, c)
		})
	}
	err = errors.Join(err,
		l.serve(serving, "modelgw", func(ctx context.Context, c *mesh.Conn, ready func()) error {
			return modelgw.Run(ctx, modelgw.Config{Slots: gatewaySlots, Ready: ready}, c)
		}),
		l.serve(serving, "approvals", func(ctx context.Context, c *mesh.Conn, ready func()) error {
			return approvals.Run(ctx, approvals.Config{Key: l.key, Ready: ready}, c)
		}),
		l.serve(serving, "tools", func(ctx context.Context, c *mesh.Conn, ready func()) error {
			return worker.Run(ctx, worker.Config{Group: group, Slots: workerSlots, Verify: l.verifier.Verify, Ready: ready}, c, l.tools()...)
		}))
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Slots let 128 runs in flight run at once; more is not measured.
const (
	gatewaySlots = 128
	workerSlots  = 128
)

// serve starts a service and returns when it is ready.
func (l *live) serve(ctx context.Context, name string, run func(context.Context, *mesh.Conn, func()) error) error {
	conn, err := l.connect(ctx, name)
	if err != nil {
		return err
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	l.services.Go(func() error {
		err := run(ctx, conn, func() { close(ready) })
		ended <- err
		return err
	})
	select {
	case <-ready:
		return nil
	case err := <-ended:
		return errors.Join(errors.New(name+" ended before it was ready"), err)
	}
}

func (l *live) stop() {
	l.stopping()
	_ = l.services.Wait() // what was measured stands; a late error changes nothing
	l.place.stop()
}

type key struct {
	Key string `json:"key"`
}

func (l *live) tools() []tool.Tool {
	value := func(verb string) func(tool.Context, key) (string, error) {
		return func(c tool.Context, in key) (string, error) { l.called(c); return verb + " " + in.Key, nil }
	}
	return []tool.Tool{
		tool.Define("lookup", "Look a key up.", value("value of"), tool.Effect(crumbs.EffectPure)),
		tool.Define("pay", "Pay.", value("paid")),
	}
}

// apply makes the two agents the project.
func (l *live) apply(ctx context.Context) error {
	call := func(name string) agent.Script {
		return agent.Script{Turns: []agent.Turn{
			{ToolCalls: []agent.ScriptCall{{Name: "tool_" + name, Args: json.RawMessage(`{"key":"a"}`)}}},
			{Text: "Done."},
		}}
	}
	define := func(id crumbs.AgentID, name string, lists perm.Lists) *agent.Definition {
		return &agent.Definition{
			ID: id, Model: agent.Model{Provider: provider, Model: "main"}, Output: agent.Output{Format: agent.FormatText}, Steps: agent.Steps{Max: 5},
			Permissions: lists, Tools: []agent.Tool{{Name: name, Worker: &agent.Worker{Group: group, Tool: name}}},
			Scripts: map[string]agent.Script{"main": call(name)},
		}
	}
	request := crumbs.AgentsApply{Groups: map[string]crumbs.Group{group: {}}}
	for _, d := range []*agent.Definition{define(clerk, "lookup", perm.Lists{}), define(cashier, "pay", perm.Lists{Ask: []string{"tool:pay"}})} {
		body, err := json.Marshal(d)
		if err != nil {
			return err
		}
		request.Agents = append(request.Agents, body)
	}
	var reply crumbs.AgentsApplyReply
	return l.client.Request(ctx, crumbs.EndpointAgentsApply, request, &reply)
}

// request is the message that asks for a run, as a client writes it.
func request(a crumbs.AgentID, run crumbs.RunID) (*nats.Msg, error) {
	body, err := json.Marshal(crumbs.RunRequest{Type: crumbs.TypeRunRequest, RunID: run, AgentID: a, Input: json.RawMessage(`{"key":"a"}`)})
	if err != nil {
		return nil, err
	}
	return crumbs.Event{ID: string(run), Source: crumbs.Source("client"), Type: crumbs.CEType(crumbs.TypeRunRequest), Subject: "run/" + string(run),
		Time: time.Now(), RunID: run, AgentID: a, Data: body}.Message(crumbs.RequestSubject(a))
}

func (l *live) run(ctx context.Context, id crumbs.RunID) error {
	m, err := request(clerk, id)
	if err != nil {
		return err
	}
	return l.finish(ctx, id, m)
}

func (l *live) bytes(ctx context.Context) (int64, error) { return l.bytesOf(ctx, durable()...) }
