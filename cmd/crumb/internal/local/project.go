package local

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
	"github.com/crumbmesh/crumbmesh/services/modelgw"
	"github.com/crumbmesh/crumbmesh/services/toolexec"
)

// Serve makes project the one that the mesh serves; it is not for several goroutines
// at a time. Runs in flight keep their agent, tools, hooks and parser, also those that
// a process before began on this store. It fails with the fault of
// the first part that cannot start; the agents applied before then stay applied.
func (m *Mesh) Serve(ctx context.Context, project *agent.Project) (crumbs.AgentsApplyReply, error) {
	request, err := Application(project)
	if err != nil {
		return crumbs.AgentsApplyReply{}, err
	}
	wanted, err := m.wanted(project)
	if err != nil {
		return crumbs.AgentsApplyReply{}, err
	}
	if err := m.conn.EnsureConsumers(ctx, Topology(project)); err != nil {
		return crumbs.AgentsApplyReply{}, err
	}
	if err := m.reconcile(ctx, wanted); err != nil {
		return crumbs.AgentsApplyReply{}, err
	}
	if n := m.earlier.add(project); n > 0 {
		m.cfg.Log.Warn("the oldest versions of tools, hooks and parsers from before edits are served no more", "versions", n, "max", worker.EarlierMax)
	}
	if err := m.earlier.write(m.cfg.Store); err != nil { // before any run can begin with them
		return crumbs.AgentsApplyReply{}, err
	}
	reply, err := m.Client.Apply(ctx, request)
	if err != nil {
		return reply, err
	}
	if err := m.prune(ctx, project); err != nil { // a tool too much in a list harms nobody
		m.cfg.Log.Warn("tools that are gone stay listed until the next edit", "error", err)
	}
	return reply, nil
}

// Application is a project as the mesh takes it.
func Application(p *agent.Project) (crumbs.AgentsApply, error) {
	request := crumbs.AgentsApply{Groups: map[string]crumbs.Group{}, Providers: slices.Sorted(maps.Keys(p.Providers))}
	shared, err := json.Marshal(p.Shared)
	if err != nil {
		return request, fault.Wrap(fault.InternalError, err, "hooks and plugins of crumb.yaml do not encode")
	}
	if string(shared) != "{}" {
		request.Shared = shared
	}
	for name, g := range p.Groups {
		request.Groups[name] = crumbs.Group{MaxInFlight: g.MaxInFlight, StartBeforeMs: g.StartBeforeMs}
	}
	for _, d := range p.Agents {
		raw, err := json.Marshal(d)
		if err != nil {
			return request, fault.Wrap(fault.InternalError, err, "the definition of %s does not encode", d.ID)
		}
		request.Agents = append(request.Agents, raw)
	}
	return request, nil
}

// Topology are the queues of a project.
func Topology(p *agent.Project) mesh.Topology {
	t := mesh.Topology{Groups: map[string]int{}, Providers: map[string]int{}}
	for name, g := range p.Groups {
		t.Groups[name] = g.MaxInFlight
	}
	for _, name := range providers(p) {
		t.Providers[name] = 0
	}
	return t
}

// providers are the instances to serve, sorted.
func providers(p *agent.Project) []string {
	all := append(slices.Collect(maps.Keys(p.Providers)), agent.ScriptProvider)
	slices.Sort(all)
	return slices.Compact(all)
}

// plan is a part that a project needs.
type plan struct {
	key   string
	alone bool // its predecessor must be gone before it starts
	run   func(context.Context, hooks) error
}

// wanted are the parts of a project, by name.
func (m *Mesh) wanted(p *agent.Project) (map[string]plan, error) {
	names := providers(p)
	out := map[string]plan{"modelgw": {key: strings.Join(names, " "), run: m.onOwnConnection("modelgw",
		func(ctx context.Context, conn *mesh.Conn, h hooks) error {
			return modelgw.Run(ctx, modelgw.Config{Providers: names, Ready: h.ready}, conn)
		})}}
	served, err := execGroups(p)
	if err != nil {
		return nil, err
	}
	for group := range m.cfg.Tools {
		served[group] += " " // Go tools never change while the process runs
	}
	for group := range m.earlier {
		if old := m.earlier.of(group, p); len(old) > 0 && served[group] == "" {
			served[group] = " " // runs in flight may have calls for it
		}
	}
	for group, key := range served {
		out["toolexec/"+group] = plan{key: p.Dir + key, run: m.onOwnConnection("toolexec/"+group, m.toolexec(p, group))}
	}
	for name, g := range p.Groups {
		if _, here := m.cfg.Tools[name]; len(g.Command) > 0 && !here {
			out["command/"+name] = plan{key: strings.Join(append(slices.Clone(g.Watch), g.Command...), "\x00"), alone: true, run: m.command(p.Dir, name, g)}
		}
	}
	return out, nil
}

// execGroups are the groups of a project's exec tools with what they serve.
func execGroups(p *agent.Project) (map[string]string, error) {
	out := map[string]string{}
	for _, e := range p.ExecTools() {
		raw, err := json.Marshal(e)
		if err != nil {
			return nil, fault.Wrap(fault.InternalError, err, "the tool %s does not encode", e.Announcement.Handler)
		}
		out[e.Announcement.Group] += string(raw)
	}
	return out, nil
}

func (m *Mesh) toolexec(p *agent.Project, group string) connected {
	// p itself, since the files may be others by now: nothing that p has is among the earlier
	cfg := toolexec.Config{Project: p, Group: group, Tools: m.cfg.Tools[group], Earlier: m.earlier.of(group, p), Verify: m.verifier.Verify}
	return func(ctx context.Context, conn *mesh.Conn, h hooks) error {
		cfg := cfg
		cfg.Ready, cfg.Health = h.ready, h.health
		return toolexec.Run(ctx, cfg, conn)
	}
}

// reconcile makes the running parts those wanted.
func (m *Mesh) reconcile(ctx context.Context, wanted map[string]plan) error {
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if err := m.replace(ctx, name, wanted[name]); err != nil {
			return err
		}
	}
	for _, name := range m.names() {
		if _, ok := wanted[name]; !ok {
			m.retire(m.swap(name, nil))
		}
	}
	return nil
}

// replace starts a part unless the one that runs serves the same.
func (m *Mesh) replace(ctx context.Context, name string, want plan) error {
	m.mu.Lock()
	old := m.parts[name]
	m.mu.Unlock()
	if old != nil && old.key == want.key {
		return nil
	}
	if want.alone && old != nil {
		m.swap(name, nil).stop()
	}
	next := begin(name, want.key, want.run, m.fail)
	if err := next.up(ctx); err != nil {
		next.stop()
		return err
	}
	m.retire(m.swap(name, next))
	return nil
}

// swap puts next in the place of a part, nothing when next is nil, and returns
// what was there.
func (m *Mesh) swap(name string, next *part) *part {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.parts[name]
	delete(m.parts, name)
	if next != nil {
		m.parts[name] = next
	}
	return old
}

// retire lets a part finish what it has in hand while the mesh goes on.
func (m *Mesh) retire(p *part) {
	if p == nil {
		return
	}
	p.cancel()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.retired = append(slices.DeleteFunc(m.retired, (*part).over), p)
}

func (m *Mesh) names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.parts))
}
