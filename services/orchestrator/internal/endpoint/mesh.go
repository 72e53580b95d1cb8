package endpoint

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
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
	providers, tools := map[string]bool{}, map[string]crumbs.MeshTools{}
	for id, revision := range p.Agents {
		d, err := e.Registry.Definition(ctx, id, revision)
		if err != nil {
			return nil, err
		}
		providers[d.Queue()] = true
		e.count(tools, d.Tools)
	}
	for _, group := range slices.Sorted(maps.Keys(tools)) {
		v.Tools = append(v.Tools, tools[group])
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
	decisions, err := e.given(ctx, &v.Dead)
	if err != nil {
		return nil, err
	}
	if v.Signer, err = e.signer(ctx); err != nil {
		return nil, err
	}
	v.Refused, err = e.refused(ctx, decisions)
	return v, err
}

// count adds an agent's tools to those of their groups. An exec tool that a worker's
// tool names, of another agent, is its agent's: toolexec serves it.
func (e *Endpoints) count(all map[string]crumbs.MeshTools, tools []agent.Tool) {
	for _, t := range tools {
		group := t.Group()
		if group == "" {
			continue
		}
		g := all[group]
		g.Group = group
		if agent.OfProject(t.Handler()) {
			g.Exec++
		} else {
			g.Worker++
			if !e.Registry.Known(group, t.Handler()) {
				g.Unknown++
			}
		}
		all[group] = g
	}
}

// given counts what was given up, and what of it is open: nothing was done about it,
// or only an edit. It looks at the last DeadScanMax letters and notes, and returns the
// letters of the decisions among them that were not believed: of each the last.
func (e *Endpoints) given(ctx context.Context, d *crumbs.MeshDead) (decisions map[crumbs.CheckpointID]uint64, err error) {
	last, err := e.Conn.LastSequence(ctx, crumbs.StreamDead)
	if err != nil {
		return nil, err
	}
	decisions = map[crumbs.CheckpointID]uint64{}
	from := uint64(1)
	if last >= mesh.DeadScanMax {
		from = last - mesh.DeadScanMax + 1
	}
	open := map[string]time.Time{} // by subject; notes stand below it, and after it
	err = e.Conn.DeadLetters(ctx, crumbs.SubjectDead, from, last+1, func(s mesh.Stored, _ int) {
		if crumbs.IsDeadLetter(s.Subject) {
			d.Letters++
			open[s.Subject] = s.Time
			if id := decidedIn(s.Header); id != "" {
				decisions[id] = s.Sequence
			}
			return
		}
		if act := s.Header.Get(crumbs.DeadAct); act != crumbs.ActEdit {
			delete(open, strings.TrimSuffix(s.Subject, "."+act))
		}
	})
	if err != nil {
		return nil, err
	}
	d.Open = uint64(len(open))
	for _, at := range open {
		if at.After(d.Newest.Time) {
			d.Newest = crumbs.At(at)
		}
	}
	return decisions, nil
}
