package modelgw

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/revision"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/turn"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/worker"
)

// own is the adapter of the queue crumbs.ProviderOwn: calls to instances that stand
// in the revision of the agent that makes them, whatever the project has under the
// same name.
type own struct {
	revisions *revision.Reader
	kinds     map[string]worker.Adapter
}

// Generate lets the instance of the call generate. It fails with AGENT_NOT_FOUND
// when the revision is not stored and with UNKNOWN_PROVIDER when the revision has no
// such instance, or one of a kind that this gateway does not know.
func (o own) Generate(ctx context.Context, r turn.Request) iter.Seq2[turn.Event, error] {
	return func(yield func(turn.Event, error) bool) {
		adapter, err := o.instance(ctx, r.Call)
		if err != nil {
			yield(turn.Event{}, err)
			return
		}
		adapter.Generate(ctx, r)(yield)
	}
}

func (o own) instance(ctx context.Context, c crumbs.ModelCall) (worker.Adapter, error) {
	d, err := o.revisions.Definition(ctx, c.AgentID, c.AgentRevision)
	if err != nil {
		return nil, err
	}
	has := slices.Sorted(maps.Keys(d.Providers))
	instance, ok := d.Providers[c.Model.Provider]
	if !ok {
		return nil, fault.New(fault.UnknownProvider, "agent %s has no provider %q of its own in revision %s; it has [%s]; list it under `providers` of agent.yaml or correct the agent's model",
			c.AgentID, c.Model.Provider, c.AgentRevision, strings.Join(has, ", ")).With("provider", c.Model.Provider).With("registered", has)
	}
	adapter, ok := o.kinds[instance.Kind]
	if !ok {
		known := slices.Sorted(maps.Keys(o.kinds))
		return nil, fault.New(fault.UnknownProvider, "provider %q of agent %s is of kind %q, which this gateway does not know; it knows [%s]; start gateways of the release that applied the agent",
			c.Model.Provider, c.AgentID, instance.Kind, strings.Join(known, ", ")).With("provider", c.Model.Provider).With("kinds", known)
	}
	return adapter, nil
}
