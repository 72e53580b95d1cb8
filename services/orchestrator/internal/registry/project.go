package registry

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// projectKey is the key of bucket `agents` that holds the project.
const projectKey = "_project"

// Project is the one record that says which revision of which agent serves. One
// key, so that applying a project is one write.
type Project struct {
	Revision string                    `json:"revision"`
	Agents   map[crumbs.AgentID]string `json:"agents"`
	Groups   map[string]crumbs.Group   `json:"groups,omitempty"`
	Shared   agent.Shared              `json:"shared,omitzero"` // hooks and plugins
	At       crumbs.Time               `json:"at"`
}

// projects reads the project through the leader. An applied project serves every
// request that comes after it was applied, on every replica; so a read is good for
// those only who asked before it began. Who asks while one is under way shares the
// next: under load one read serves many requests.
type projects struct {
	bucket *mesh.Bucket

	mu   sync.Mutex
	busy bool         // a read is under way: its owner alone touches last
	next *projectRead // what those share who asked meanwhile
	last applied      // what a record said last: it is decoded once a revision
}

// applied is a project and the revision of its record. It is shared: nobody
// changes it.
type applied struct {
	project  Project
	revision uint64
}

type projectRead struct {
	done chan struct{}
	got  applied
	err  error
}

// read returns what is applied when it is called, or later.
func (p *projects) read(ctx context.Context) (applied, error) {
	p.mu.Lock()
	if !p.busy {
		p.busy = true
		p.mu.Unlock()
		defer p.handOver(ctx)
		return p.fetch(ctx)
	}
	if p.next == nil {
		p.next = &projectRead{done: make(chan struct{})}
	}
	mine := p.next
	p.mu.Unlock()
	select {
	case <-mine.done:
		return mine.got, mine.err
	case <-ctx.Done():
		return applied{}, fault.Wrap(fault.ShuttingDown, ctx.Err(), "stopped before the project was read")
	}
}

// handOver lets those be served who asked meanwhile, whatever becomes of the one
// who read before them.
func (p *projects) handOver(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.next
	if p.next = nil; r == nil {
		p.busy = false
		return
	}
	go func() {
		ctx := context.WithoutCancel(ctx) // the connection bounds the read
		r.got, r.err = p.fetch(ctx)
		close(r.done)
		p.handOver(ctx)
	}()
}

func (p *projects) fetch(ctx context.Context) (applied, error) {
	rec, err := p.bucket.Get(ctx, projectKey)
	if err != nil || !rec.Exists() {
		return applied{revision: rec.Revision}, err
	}
	if p.last.revision == rec.Revision { // whoever is busy fetches, nobody else
		return p.last, nil
	}
	now := applied{revision: rec.Revision}
	if err := json.Unmarshal(rec.Value, &now.project); err != nil {
		return applied{}, fault.Wrap(fault.InternalError, err, "the project record does not decode")
	}
	p.last = now
	return now, nil
}
