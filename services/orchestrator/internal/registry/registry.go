// Package registry reads and writes what runs are made from: the applied project,
// agent revisions, announced tools and pinned tool sets.
package registry

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// Keys of bucket `agents`: `<agent>.<revision>` is a definition, for good.
const toolSetPrefix = "_toolset."

// cacheMax bounds each cache of immutable documents; a full cache starts anew.
const cacheMax = 1024

// Registry is a cached view of buckets `agents` and `tools`.
type Registry struct {
	conn     *mesh.Conn
	agents   *mesh.Bucket
	projects *projects

	mu          sync.Mutex
	definitions map[string]*agent.Definition
	sets        map[string]*agent.ToolSet
	pins        map[string]pin // by agent and project revision
	announced   map[string]agent.Announcement
	generation  uint64 // of announced
	queues      map[string]bool
}

type pin struct {
	set        *agent.ToolSet
	hash       string
	warnings   []string
	generation uint64
}

// New returns a registry; Watch keeps it current.
func New(conn *mesh.Conn) *Registry {
	agents := conn.Bucket(crumbs.BucketAgents)
	return &Registry{conn: conn, agents: agents, projects: &projects{bucket: agents}, definitions: map[string]*agent.Definition{},
		sets: map[string]*agent.ToolSet{}, pins: map[string]pin{}, announced: map[string]agent.Announcement{}, queues: map[string]bool{}}
}

// Watch follows the announcements until ctx ends. It returns after the present
// ones are read.
func (r *Registry) Watch(ctx context.Context) error {
	kv, err := r.conn.JS.KeyValue(ctx, crumbs.BucketTools)
	if err != nil {
		return fault.Wrap(fault.TopologyMissing, err, "bucket %s is missing; run `crumb init`", crumbs.BucketTools)
	}
	w, err := kv.WatchAll(ctx)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "watch bucket %s: %v", crumbs.BucketTools, err)
	}
	ready := make(chan struct{})
	go func() {
		first := true
		for e := range w.Updates() {
			if e == nil {
				if first {
					close(ready)
					first = false
				}
				continue
			}
			r.announce(e)
		}
	}()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return fault.Wrap(fault.ShuttingDown, ctx.Err(), "stopped before the tools were read")
	}
}

func (r *Registry) announce(e jetstream.KeyValueEntry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.generation++
	var a agent.Announcement
	if e.Operation() != jetstream.KeyValuePut || json.Unmarshal(e.Value(), &a) != nil || a.Key() != e.Key() {
		delete(r.announced, e.Key())
		return
	}
	r.announced[e.Key()] = a
}

// Announced lists the announced tools by key.
func (r *Registry) Announced() []agent.Announcement {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := make([]string, 0, len(r.announced))
	for k := range r.announced {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out := make([]agent.Announcement, 0, len(keys))
	for _, k := range keys {
		out = append(out, r.announced[k])
	}
	return out
}

// Project reads which agents serve, and the revision of the record that says so;
// an empty one when none was applied. What was applied before the call is in it.
// It is shared: do not change it.
func (r *Registry) Project(ctx context.Context) (Project, uint64, error) {
	now, err := r.projects.read(ctx)
	return now.project, now.revision, err
}

// Definition reads a revision of an agent. It fails with AGENT_NOT_FOUND.
func (r *Registry) Definition(ctx context.Context, id crumbs.AgentID, revision string) (*agent.Definition, error) {
	key := string(id) + "." + revision
	r.mu.Lock()
	d, ok := r.definitions[key]
	r.mu.Unlock()
	if ok {
		return d, nil
	}
	rec, err := r.agents.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if !rec.Exists() {
		return nil, fault.New(fault.AgentNotFound, "agent %s has no revision %s", id, revision)
	}
	d = &agent.Definition{}
	if err := json.Unmarshal(rec.Value, d); err != nil {
		return nil, fault.Wrap(fault.InternalError, err, "revision %s of agent %s does not decode", revision, id)
	}
	if err := d.Compile(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	bound(r.definitions)
	r.definitions[key] = d
	return d, nil
}

func bound[V any](m map[string]V) {
	if len(m) >= cacheMax {
		clear(m)
	}
}

// Apply stores definitions and then, by one write, makes them the project.
func (r *Registry) Apply(ctx context.Context, p Project, definitions []*agent.Definition) (changed bool, err error) {
	before, rev, err := r.Project(ctx)
	if err != nil {
		return false, err
	}
	if before.Revision == p.Revision {
		return false, nil
	}
	for _, d := range definitions {
		body, err := json.Marshal(d)
		if err != nil {
			return false, fault.From(err)
		}
		if _, err := r.agents.Put(ctx, string(d.ID)+"."+p.Agents[d.ID], body); err != nil {
			return false, err
		}
	}
	p.At = crumbs.At(time.Now())
	body, err := json.Marshal(p)
	if err != nil {
		return false, fault.From(err)
	}
	_, err = r.agents.CompareAndSet(ctx, projectKey, body, rev, 0)
	return err == nil, err
}

// Pin assembles the tool set of a definition and stores it by its hash, once.
func (r *Registry) Pin(ctx context.Context, d *agent.Definition, revision string, p Project) (*agent.ToolSet, string, []string, error) {
	key := revision + " " + p.Revision
	r.mu.Lock()
	got, ok := r.pins[key]
	generation := r.generation
	r.mu.Unlock()
	if ok && got.generation == generation {
		return got.set, got.hash, got.warnings, nil
	}
	set, warnings, err := agent.Assemble(d, agent.Surroundings{Shared: p.Shared, Announced: r.lookup,
		HasQueue: func(group string) bool { return r.hasQueue(ctx, group) }})
	if err != nil {
		return nil, "", nil, err
	}
	set.QueueFor(func(group string) int64 { return p.Groups[group].StartBeforeMs })
	if err := set.Compile(); err != nil {
		return nil, "", nil, err
	}
	hash := set.Hash()
	if err := r.store(ctx, hash, set); err != nil {
		return nil, "", nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	bound(r.pins)
	r.pins[key] = pin{set, hash, warnings, generation}
	return set, hash, warnings, nil
}

func (r *Registry) store(ctx context.Context, hash string, set *agent.ToolSet) error {
	r.mu.Lock()
	_, known := r.sets[hash]
	r.mu.Unlock()
	if known {
		return nil
	}
	body, err := json.Marshal(set)
	if err != nil {
		return fault.From(err)
	}
	if _, err := r.agents.Put(ctx, toolSetKey(hash), body); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	bound(r.sets)
	r.sets[hash] = set
	return nil
}

func toolSetKey(hash string) string {
	return toolSetPrefix + strings.NewReplacer(":", "_", "/", "_").Replace(hash)
}

// ToolSet reads a pinned set. It fails with INTERNAL_ERROR when it is gone.
func (r *Registry) ToolSet(ctx context.Context, hash string) (*agent.ToolSet, error) {
	r.mu.Lock()
	set, ok := r.sets[hash]
	r.mu.Unlock()
	if ok {
		return set, nil
	}
	rec, err := r.agents.Get(ctx, toolSetKey(hash))
	if err != nil {
		return nil, err
	}
	if !rec.Exists() {
		return nil, fault.New(fault.InternalError, "the pinned tool set %s is gone", hash)
	}
	set = &agent.ToolSet{}
	if err := json.Unmarshal(rec.Value, set); err != nil {
		return nil, fault.Wrap(fault.InternalError, err, "the pinned tool set %s does not decode", hash)
	}
	if err := set.Compile(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	bound(r.sets)
	r.sets[hash] = set
	return set, nil
}

// Queues returns the filters of all groups and providers that the project and the
// announcements name, by stream, whether or not they have a consumer.
func (r *Registry) Queues(ctx context.Context) (map[string][]string, error) {
	p, _, err := r.Project(ctx)
	if err != nil {
		return nil, err
	}
	groups, providers := map[string]bool{}, map[string]bool{}
	for g := range p.Groups {
		groups[g] = true
	}
	for _, a := range r.Announced() {
		groups[a.Group] = true
	}
	for id, revision := range p.Agents {
		d, err := r.Definition(ctx, id, revision)
		if err != nil {
			return nil, err
		}
		providers[d.Queue()] = true
	}
	out := map[string][]string{}
	for g := range groups {
		out[crumbs.StreamToolCalls] = append(out[crumbs.StreamToolCalls], crumbs.ToolCallFilter(g))
	}
	for name := range providers {
		out[crumbs.StreamModelCalls] = append(out[crumbs.StreamModelCalls], crumbs.ModelCallFilter(name))
	}
	return out, nil
}

// Known reports whether a worker of group ever announced the tool.
func (r *Registry) Known(group, tool string) bool {
	_, known := r.lookup(agent.AnnouncedTool, group, tool)
	return known
}

func (r *Registry) lookup(kind agent.Announced, group, handler string) (agent.Announcement, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.announced[agent.AnnouncementKey(kind, group, handler)]
	return a, ok
}

// hasQueue reports whether a group has a consumer; queues are never removed, so
// a yes is remembered. Without an answer from NATS the call would only queue.
func (r *Registry) hasQueue(ctx context.Context, group string) bool {
	return r.queue("group "+group, func() (bool, error) { return r.conn.HasGroup(ctx, group) })
}

// HasProvider reports whether a provider instance has a queue.
func (r *Registry) HasProvider(ctx context.Context, provider string) bool {
	return r.queue("provider "+provider, func() (bool, error) { return r.conn.HasProvider(ctx, provider) })
}

func (r *Registry) queue(key string, ask func() (bool, error)) bool {
	r.mu.Lock()
	known := r.queues[key]
	r.mu.Unlock()
	if known {
		return true
	}
	ok, err := ask()
	if err != nil {
		r.conn.Log.Warn("queue", "of", key, "error", err)
		return true
	}
	if ok {
		r.mu.Lock()
		bound(r.queues)
		r.queues[key] = true
		r.mu.Unlock()
	}
	return ok
}

// UnknownProvider is the refusal of an agent whose provider no gateway serves; it
// names those that are.
func (r *Registry) UnknownProvider(ctx context.Context, provider string) error {
	served, err := r.conn.Providers(ctx)
	if err != nil {
		return err
	}
	return fault.New(fault.UnknownProvider, "model provider %q is not registered; registered: %s", provider, strings.Join(served, ", ")).
		With("provider", provider).With("registered", served)
}
