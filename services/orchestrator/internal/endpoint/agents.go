package endpoint

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/registry"
)

// startBeforeMax keeps every request younger than its claim.
const startBeforeMax = 24 * time.Hour

func (e *Endpoints) agents(ctx context.Context, _ json.RawMessage) (any, error) {
	p, _, err := e.Registry.Project(ctx)
	if err != nil {
		return nil, err
	}
	reply := crumbs.AgentsListReply{Revision: p.Revision, Agents: []crumbs.AgentView{}}
	for _, id := range sortedIDs(p.Agents) {
		d, err := e.Registry.Definition(ctx, id, p.Agents[id])
		if err != nil {
			return nil, err
		}
		v := crumbs.AgentView{AgentID: id, Revision: p.Agents[id], Description: d.Description,
			Model: crumbs.Model{Provider: d.Model.Provider, Model: d.Model.Model}, InputSchema: d.InputSchema}
		for _, t := range d.Tools {
			o := t.Origin()
			v.Tools = append(v.Tools, string(o.Scope)+":"+o.Name)
		}
		reply.Agents = append(reply.Agents, v)
	}
	return reply, nil
}

func sortedIDs[V any](m map[crumbs.AgentID]V) []crumbs.AgentID {
	ids := make([]crumbs.AgentID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (e *Endpoints) agent(ctx context.Context, body json.RawMessage) (any, error) {
	var r crumbs.AgentGet
	if err := decode(body, &r, `{"agentId":"writer"}`); err != nil {
		return nil, err
	}
	if err := crumbs.CheckAgentID(string(r.AgentID)); err != nil {
		return nil, err
	}
	if r.Revision == "" {
		p, _, err := e.Registry.Project(ctx)
		if err != nil {
			return nil, err
		}
		if r.Revision = p.Agents[r.AgentID]; r.Revision == "" {
			return nil, fault.New(fault.AgentNotFound, "no agent %q is applied", r.AgentID)
		}
	}
	if err := crumbs.CheckRunID("revision", r.Revision); err != nil {
		return nil, err
	}
	return e.Registry.Definition(ctx, r.AgentID, r.Revision)
}

// apply makes a whole project the one that serves: every definition is checked,
// one fault refuses all.
func (e *Endpoints) apply(ctx context.Context, body json.RawMessage) (any, error) {
	var r crumbs.AgentsApply
	if err := decode(body, &r, `{"agents":[definition, …]}`); err != nil {
		return nil, err
	}
	p := registry.Project{Agents: map[crumbs.AgentID]string{}, Groups: r.Groups}
	definitions := make([]*agent.Definition, 0, len(r.Agents))
	shared, err := agent.DecodeShared(r.Shared)
	if err != nil {
		return nil, refused(err)
	}
	p.Shared = shared
	topology := mesh.Topology{Groups: map[string]int{}, Providers: map[string]int{agent.ScriptProvider: 0}}
	var names []string
	for _, raw := range r.Agents {
		d, err := agent.Decode(raw)
		if err != nil {
			return nil, refused(err)
		}
		if _, twice := p.Agents[d.ID]; twice {
			return nil, fault.New(fault.InvalidConfig, "agent %q is there twice", d.ID)
		}
		definitions = append(definitions, d)
		p.Agents[d.ID] = d.Revision()
		names = append(names, string(d.ID)+"="+p.Agents[d.ID])
		if d.Queue() == agent.OwnProvider {
			topology.Providers[agent.OwnProvider] = 0
		}
	}
	if text, err := json.Marshal(shared); err == nil && string(text) != "{}" {
		names = append(names, "shared "+string(text))
	}
	for g, limits := range r.Groups {
		if err := checkGroup(g, limits); err != nil {
			return nil, err
		}
		topology.Groups[g] = limits.MaxInFlight
		names = append(names, fmt.Sprintf("group %s %d %d", g, limits.MaxInFlight, limits.StartBeforeMs))
	}
	for _, name := range r.Providers {
		if err := crumbs.CheckName("provider", name); err != nil {
			return nil, err
		}
		topology.Providers[name] = 0
	}
	slices.Sort(names)
	sum := sha256.Sum256([]byte(strings.Join(names, "\n")))
	p.Revision = "prj_" + hex.EncodeToString(sum[:8])
	reply := crumbs.AgentsApplyReply{Revision: p.Revision, Agents: p.Agents}
	if r.DryRun {
		return reply, nil
	}
	if err := e.Conn.EnsureConsumers(ctx, topology); err != nil {
		return nil, err
	}
	if reply.Changed, err = e.Registry.Apply(ctx, p, definitions); errors.Is(err, mesh.ErrConflict) {
		return nil, fault.New(fault.Unavailable, "another project was applied at the same time; look at it and apply again")
	}
	return reply, err
}

func checkGroup(name string, g crumbs.Group) error {
	if err := crumbs.CheckName("group", name); err != nil {
		return err
	}
	if g.MaxInFlight < 0 || g.StartBeforeMs < 0 || g.StartBeforeMs > startBeforeMax.Milliseconds() {
		return fault.New(fault.InvalidConfig, "group %s: expected maxInFlight of at least 0 and startBeforeMs of 0 to %d", name, startBeforeMax.Milliseconds())
	}
	return nil
}

// refused turns a list of faults into one that names them all.
func refused(err error) error {
	if fault.CodeOf(err) != "" {
		return err
	}
	return fault.New(fault.InvalidConfig, "%s", err.Error())
}

func (e *Endpoints) tools(ctx context.Context, _ json.RawMessage) (any, error) {
	present := map[string]int{}
	if err := e.Conn.Bucket(crumbs.BucketWorkers).List(ctx, ">", func(r mesh.Record) bool {
		var p mesh.Presence
		if json.Unmarshal(r.Value, &p) == nil && p.Service == mesh.ServiceTools && strings.HasPrefix(r.Key, crumbs.ToolKeys(p.Queue)) {
			present[p.Queue]++
		}
		return true
	}); err != nil {
		return nil, err
	}
	reply := crumbs.ToolsListReply{Tools: []crumbs.ToolView{}}
	for _, a := range e.Registry.Announced() {
		reply.Tools = append(reply.Tools, crumbs.ToolView{Kind: cmp.Or(string(a.Kind), crumbs.KindTool), Group: a.Group, Handler: a.Handler, Description: a.Description, Schema: a.Schema,
			Effect: a.Effect, Stream: a.Stream, TimeoutMs: a.TimeoutMs, Points: a.Points, Hash: a.Hash(), Workers: present[a.Group]})
	}
	return reply, nil
}
