// Package fleet runs the services of a mesh inside one test, each with its own
// connection, so that a test may stop, kill, replicate and restart them.
package fleet

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
	"github.com/crumbmesh/crumbmesh/services/approvals"
	"github.com/crumbmesh/crumbmesh/services/modelgw"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// Fleet is the services of one test.
type Fleet struct {
	Mesh     *meshtest.Mesh
	Key      decision.Key
	verifier *decision.Verifier
	t        testing.TB
}

// New returns an empty fleet on a mesh.
func New(t testing.TB, m *meshtest.Mesh) *Fleet {
	t.Helper()
	key := decision.NewKey()
	v, err := decision.NewVerifier(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return &Fleet{Mesh: m, Key: key, verifier: v, t: t}
}

// Service is a running service of a fleet.
type Service struct {
	Conn *mesh.Conn
	stop context.CancelFunc
	done chan error
	t    testing.TB
}

// Stop drains the service and waits for it.
func (s *Service) Stop() {
	s.t.Helper()
	s.stop()
	if err := <-s.done; err != nil {
		s.t.Errorf("service: %v", err)
	}
	s.done <- nil
	s.Conn.Close()
}

// Kill cuts the service's connection first, as if its process were gone: what it
// still does reaches nobody.
func (s *Service) Kill() {
	s.Conn.Close()
	s.stop()
}

func (f *Fleet) start(name string, run func(ctx context.Context, conn *mesh.Conn, ready func()) error) *Service {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &Service{Conn: f.Mesh.Connect(name), stop: cancel, done: make(chan error, 1), t: f.t}
	ready := make(chan struct{})
	go func() { s.done <- run(ctx, s.Conn, func() { close(ready) }) }()
	f.t.Cleanup(cancel)
	select {
	case <-ready:
	case err := <-s.done:
		f.t.Fatalf("%s: %v", name, err)
	}
	return s
}

// Orchestrator starts a replica.
func (f *Fleet) Orchestrator(change ...func(*orchestrator.Config)) *Service {
	f.t.Helper()
	return f.start("orchestrator", func(ctx context.Context, conn *mesh.Conn, ready func()) error {
		cfg := orchestrator.Config{Verify: f.verifier.Verify, Ready: ready}
		for _, c := range change {
			c(&cfg)
		}
		return orchestrator.Run(ctx, cfg, conn)
	})
}

// Gateway starts a replica of the model gateway with the provider script.
func (f *Fleet) Gateway() *Service {
	f.t.Helper()
	return f.start("modelgw", func(ctx context.Context, conn *mesh.Conn, ready func()) error {
		return modelgw.Run(ctx, modelgw.Config{Ready: ready}, conn)
	})
}

// Approvals starts a replica of the approvals service.
func (f *Fleet) Approvals(change ...func(*approvals.Config)) *Service {
	f.t.Helper()
	return f.start("approvals", func(ctx context.Context, conn *mesh.Conn, ready func()) error {
		cfg := approvals.Config{Key: f.Key, Ready: ready}
		for _, c := range change {
			c(&cfg)
		}
		return approvals.Run(ctx, cfg, conn)
	})
}

// Tools starts a worker of a group.
func (f *Fleet) Tools(group string, tools ...tool.Tool) *Service {
	f.t.Helper()
	return f.start("tools-"+group, func(ctx context.Context, conn *mesh.Conn, ready func()) error {
		w, err := worker.New(ctx, worker.Config{Group: group, Verify: f.verifier.Verify}, conn, tools...)
		if err != nil {
			return err
		}
		ready()
		return w.Run(ctx)
	})
}

// Apply makes definitions the project.
func (f *Fleet) Apply(groups []string, definitions ...*agent.Definition) {
	f.t.Helper()
	req := crumbs.AgentsApply{Groups: map[string]crumbs.Group{}}
	for _, g := range groups {
		req.Groups[g] = crumbs.Group{}
	}
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

// Stored is a crumb as it stands on the stream.
type Stored struct {
	Sequence uint64 // of the stream
	Base     crumbs.Base
	Body     json.RawMessage
}

// Crumbs reads the crumbs of a run raw from the stream, in stream order.
func (f *Fleet) Crumbs(run crumbs.RunID) []Stored {
	f.t.Helper()
	return f.read(crumbs.RunCrumbsFilter(run))
}

// AllCrumbs reads every crumb.
func (f *Fleet) AllCrumbs() []Stored {
	f.t.Helper()
	return f.read(crumbs.SubjectCrumbs)
}

// WaitEnd waits until a run's terminal crumb is stored and returns all of them.
func (f *Fleet) WaitEnd(run crumbs.RunID) []Stored {
	f.t.Helper()
	return f.WaitFor(run, func(c Stored) bool { return crumbs.Terminal(c.Base.Type) })
}

// WaitFor waits until a crumb of a run fits and returns the crumbs so far.
func (f *Fleet) WaitFor(run crumbs.RunID, fits func(Stored) bool) []Stored {
	f.t.Helper()
	for range waitPolls {
		all := f.Crumbs(run)
		for _, c := range all {
			if fits(c) {
				return all
			}
		}
		<-time.After(waitPoll)
	}
	f.t.Fatalf("run %s: the crumb did not come; there are %d", run, len(f.Crumbs(run)))
	return nil
}

// WaitTrimmed waits until the record of an ended run has its final form, after
// which nothing of the run is still to be sent.
func (f *Fleet) WaitTrimmed(run crumbs.RunID) {
	f.t.Helper()
	bucket := f.Mesh.Conn.Bucket(crumbs.BucketRuns)
	for range waitPolls {
		r, err := bucket.Get(context.Background(), string(run))
		if err != nil {
			f.t.Fatal(err)
		}
		if r.Header.Get("Nats-TTL") != "" {
			return
		}
		<-time.After(waitPoll)
	}
	f.t.Fatalf("run %s: the record was not closed", run)
}
