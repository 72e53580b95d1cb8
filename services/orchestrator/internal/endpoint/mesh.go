package endpoint

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// workersMax bounds the workers of an answer, so that it fits a message.
const workersMax = 2000

// mesh shows what the mesh holds at the moment.
func (e *Endpoints) mesh(ctx context.Context, _ json.RawMessage) (any, error) {
	p, _, err := e.Registry.Project(ctx)
	if err != nil {
		return nil, err
	}
	v := crumbs.MeshView{At: crumbs.At(time.Now()), Groups: []string{}, Providers: []string{}, Workers: []crumbs.MeshWorker{}, Queues: []crumbs.MeshQueue{}}
	v.Groups = append(v.Groups, slices.Sorted(maps.Keys(p.Groups))...)
	providers := map[string]bool{}
	for id, revision := range p.Agents {
		d, err := e.Registry.Definition(ctx, id, revision)
		if err != nil {
			return nil, err
		}
		providers[d.Model.Provider] = true
	}
	v.Providers = append(v.Providers, slices.Sorted(maps.Keys(providers))...)
	present, err := e.Conn.Present(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range present[:min(len(present), workersMax)] {
		v.Workers = append(v.Workers, crumbs.MeshWorker{Worker: w.Worker, Service: w.Service, Queue: w.Queue, Host: w.Host, Version: w.Version,
			Since: w.Since, At: w.At, Stored: crumbs.At(w.Stored), Violations: w.Violations})
	}
	loads, err := e.Conn.Loads(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range loads {
		o, err := e.Conn.Oldest(ctx, l)
		if err != nil {
			return nil, err
		}
		if !o.Stored.IsZero() {
			v.Queues = append(v.Queues, crumbs.MeshQueue{Stream: l.Stream, Consumer: l.Consumer, Subject: o.Subject, Sequence: o.Sequence, Stored: crumbs.At(o.Stored)})
		}
	}
	return v, e.given(ctx, &v.Dead)
}

// given counts what was given up.
func (e *Endpoints) given(ctx context.Context, d *crumbs.MeshDead) error {
	states, err := e.Conn.StreamStates(ctx)
	if err != nil {
		return err
	}
	for _, s := range states {
		if s.Name == crumbs.StreamDead {
			d.Letters = s.Messages
		}
	}
	last, err := e.Conn.Last(ctx, crumbs.StreamDead, crumbs.SubjectDead)
	if err == nil && last != nil {
		d.Newest = crumbs.At(last.Time)
	}
	return err
}
