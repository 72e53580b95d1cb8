// Package fleet runs the services of a mesh inside one test, each with its own
// connection, so that a test may stop, kill, replicate and restart them.
package fleet

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
)

// Fleet is the services of one test.
type Fleet struct {
	Mesh     *meshtest.Mesh
	Key      decision.Key
	verifier *decision.Verifier
	t        testing.TB
	wires    []meshtest.Wire
	all      *services
}

// services are what all views of a fleet share.
type services struct {
	mu     sync.Mutex
	list   []*Service
	parked chan struct{} // closed when the fleet is
	close  sync.Once
}

// New returns an empty fleet on a mesh, closed with the test. A test in a bubble
// defers Close itself: the bubble's time stands still after it.
func New(t testing.TB, m *meshtest.Mesh) *Fleet {
	t.Helper()
	key := decision.NewKey()
	v, err := decision.NewVerifier(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	f := &Fleet{Mesh: m, Key: key, verifier: v, t: t, all: &services{parked: make(chan struct{})}}
	t.Cleanup(f.Close)
	return f
}

// On is the same fleet; services started through it send over the wire.
func (f *Fleet) On(wire meshtest.Wire) *Fleet {
	c := *f
	c.wires = []meshtest.Wire{wire}
	return &c
}

// Park blocks its goroutine until the fleet is closed: the end of a killed
// process inside a hook.
func (f *Fleet) Park() { <-f.all.parked }

// Close lets parked goroutines go and stops every service.
func (f *Fleet) Close() {
	f.all.close.Do(func() {
		close(f.all.parked)
		f.all.mu.Lock()
		list := f.all.list
		f.all.mu.Unlock()
		for _, s := range list {
			s.stop()
		}
		for _, s := range list {
			if f.Mesh.Virtual || !s.killed.Load() {
				s.wait()
			}
		}
	})
}

// Apply makes definitions the project. It needs a running orchestrator.
func (f *Fleet) Apply(groups []string, definitions ...*agent.Definition) {
	f.t.Helper()
	all := map[string]crumbs.Group{}
	for _, g := range groups {
		all[g] = crumbs.Group{}
	}
	f.ApplyGroups(all, definitions...)
}

// ApplyGroups is Apply with what the project says of its groups.
func (f *Fleet) ApplyGroups(groups map[string]crumbs.Group, definitions ...*agent.Definition) {
	f.t.Helper()
	req := crumbs.AgentsApply{Groups: groups}
	for _, d := range definitions {
		body, err := json.Marshal(d)
		if err != nil {
			f.t.Fatal(err)
		}
		req.Agents = append(req.Agents, body)
	}
	var reply crumbs.AgentsApplyReply
	if err := f.Mesh.Conn.Request(context.Background(), crumbs.EndpointAgentsApply, req, &reply); err != nil {
		f.t.Fatal(err)
	}
}
