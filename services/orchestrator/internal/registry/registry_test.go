package registry_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/registry"
)

// The hooks of crumb.yaml are in the set that a run pins: another crumb.yaml
// changes it for runs that start later, and for none before.
func TestRegistry_PinHasTheHooksOfTheProject(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := meshtest.Start(t)
	conn := m.Connect("orchestrator")
	if err := conn.EnsureConsumers(ctx, mesh.Topology{Groups: map[string]int{agent.DefaultGroup: 0}}); err != nil {
		t.Fatal(err)
	}
	r := registry.New(conn)
	d, err := agent.Decode([]byte(`{"id":"a","model":{"provider":"script","model":"m"},"scripts":{"m":{"turns":[{"text":"x"}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	shared, err := agent.DecodeShared(json.RawMessage(`{"hooks":{"onError":[{"nats":"ops.alert"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	before := registry.Project{Revision: "1", Groups: map[string]crumbs.Group{agent.DefaultGroup: {StartBeforeMs: 77}}}
	after := before
	after.Revision, after.Shared = "2", shared
	if _, err := r.Apply(ctx, after, nil); err != nil {
		t.Fatal(err)
	}
	stored, _, err := registry.New(conn).Project(ctx)
	if err != nil {
		t.Fatal(err)
	}
	plain, plainHash, _, err := r.Pin(ctx, d, d.Revision(), before)
	if err != nil {
		t.Fatal(err)
	}
	set, hash, _, err := r.Pin(ctx, d, d.Revision(), stored)
	if err != nil {
		t.Fatal(err)
	}
	if plain.Hooks != nil || hash == plainHash {
		t.Errorf("without hooks %+v, hashes %s and %s", plain.Hooks, plainHash, hash)
	}
	if list := set.Hooks.At(crumbs.HookOnError); len(list) != 1 || list[0].Handler != "hooks/on_error-0" || list[0].StartBeforeMs != 77 {
		t.Errorf("hooks %+v", list)
	}
	back, err := registry.New(conn).ToolSet(ctx, hash)
	if err != nil || back.Hash() != hash {
		t.Errorf("the stored set is another: %v", err)
	}
	stored.Revision, stored.Shared.Hooks.OnError[0] = "3", agent.Hook{Name: "x", Worker: &agent.HookWorker{Group: agent.DefaultGroup, Hook: "x"}}
	if _, _, _, err := r.Pin(ctx, d, d.Revision(), stored); fault.CodeOf(err) != fault.HookNotFound {
		t.Errorf("a hook that nobody announced: %v", err)
	}
}
