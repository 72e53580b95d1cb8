package doctor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// pings is how often an endpoint is pinged: each time one of its replicas answers,
// whichever, so most of them are heard.
const pings = 12

// Facts are what an examination found.
type Facts struct {
	Now     time.Time
	Release string // of this command
	Server  mesh.Server
	Drift   []mesh.Drift
	Streams []mesh.StreamState
	Loads   []mesh.Load
	Last    map[string]uint64 // last sequence by stream
	Strays  []mesh.Stray      // calls that no consumer takes
	View    *crumbs.MeshView  // nil when no orchestrator answers
	Pings   []Ping
	Unread  []Unread // what could not be read
}

// Ping is a process that answered.
type Ping struct {
	mesh.Replica
	Ahead time.Duration // its clock, of this process's
}

// Unread is a part of the examination that failed.
type Unread struct {
	What string
	Err  error
}

// services are those that have endpoints, by the subject they are pinged at.
func services() map[string]string {
	return map[string]string{"orchestrator": crumbs.EndpointMeshGet, "approvals": crumbs.EndpointApprovalsGet}
}

// Examine reads what there is to know. It fails with UNAVAILABLE when the server
// does not answer; what else cannot be read is a fact.
func Examine(ctx context.Context, conn *mesh.Conn) (Facts, error) {
	f := Facts{Now: time.Now(), Release: mesh.Version}
	var err error
	if f.Server, err = conn.Server(ctx); err != nil {
		return f, err
	}
	if !f.Server.JetStream {
		return f, nil
	}
	topology := mesh.Topology{Groups: map[string]int{}, Providers: map[string]int{}}
	var view crumbs.MeshView
	if f.read("the orchestrator's view", conn.Request(ctx, crumbs.EndpointMeshGet, struct{}{}, &view)) {
		f.View = &view
		for _, g := range view.Groups {
			topology.Groups[g] = 0
		}
		for _, p := range view.Providers {
			topology.Providers[p] = 0
		}
	}
	if _, err = conn.Adopt(ctx); f.read("streams", err) {
		f.Drift, err = conn.Drift(ctx, topology)
		f.read("streams and consumers", err)
	}
	f.Streams, err = conn.StreamStates(ctx)
	f.read("sizes of streams", err)
	f.Loads, err = loads(ctx, conn)
	f.read("consumers", err)
	f.Last, err = conn.LastSequences(ctx)
	f.read("ends of streams", err)
	f.Strays, err = strays(ctx, conn)
	f.read("subjects of calls", err)
	for _, service := range []string{"orchestrator", "approvals"} {
		f.ping(ctx, conn, service)
	}
	return f, nil
}

// A worker asks for messages again and again: between two of its pulls nobody seems
// to ask. So a queue that looks so is looked at again.
const (
	looks     = 4
	lookPause = 300 * time.Millisecond
)

func loads(ctx context.Context, conn *mesh.Conn) (all []mesh.Load, err error) {
	for look := range looks {
		if all, err = conn.Loads(ctx); err != nil || !slices.ContainsFunc(all, unasked) || look == looks-1 {
			return all, err
		}
		select {
		case <-ctx.Done():
			return all, nil
		case <-time.After(lookPause):
		}
	}
	return all, err
}

// unasked reports whether messages wait and nobody asks for them or has any.
func unasked(l mesh.Load) bool { return l.Pending > 0 && l.Waiting == 0 && l.InHand == 0 }

// straysMax bounds the places of strays that are told of each stream.
const straysMax = 16

// strays finds calls that no consumer takes. Of a stream that is missing the topology
// tells.
func strays(ctx context.Context, conn *mesh.Conn) (all []mesh.Stray, err error) {
	for _, stream := range []string{crumbs.StreamModelCalls, crumbs.StreamToolCalls} {
		queues, err := conn.Queues(ctx, stream)
		var some []mesh.Stray
		if err == nil {
			some, err = conn.Strays(ctx, stream, queues, straysMax)
		}
		if err != nil && fault.CodeOf(err) != fault.TopologyMissing {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func (f *Facts) read(what string, err error) bool {
	if err != nil {
		f.Unread = append(f.Unread, Unread{what, err})
	}
	return err == nil
}

// ping hears the replicas of a service.
func (f *Facts) ping(ctx context.Context, conn *mesh.Conn, service string) {
	subject := services()[service]
	for range pings {
		r, ahead, err := conn.Ping(ctx, subject)
		if err != nil {
			f.read("service "+service, err)
			return
		}
		r.Service = service // in `crumb dev` all share the name of one connection
		if !slices.ContainsFunc(f.Pings, func(p Ping) bool { return p.Instance == r.Instance && p.Service == service }) {
			f.Pings = append(f.Pings, Ping{r, ahead})
		}
	}
	slices.SortStableFunc(f.Pings, func(a, b Ping) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Instance, b.Instance))
	})
}

// silent reports whether nobody serves the endpoints of a service.
func (f Facts) silent(service string) bool {
	return !slices.ContainsFunc(f.Pings, func(p Ping) bool { return p.Service == service })
}

// because is the error that kept something from being read.
func (f Facts) because(what string) *fault.Error {
	for _, u := range f.Unread {
		if u.What == what {
			return fault.From(u.Err)
		}
	}
	return nil
}
