package fleet

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
	"github.com/crumbmesh/crumbmesh/services/approvals"
	"github.com/crumbmesh/crumbmesh/services/modelgw"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// Service is a running service of a fleet.
type Service struct {
	Conn *mesh.Conn
	Name string // of a tool worker: its id in claims, results and crumbs

	stop   context.CancelFunc
	done   chan error
	killed atomic.Bool
	t      testing.TB
}

// Stop drains the service and waits for it.
func (s *Service) Stop() {
	s.t.Helper()
	s.stop()
	s.wait()
	s.Conn.Close()
}

func (s *Service) wait() {
	s.t.Helper()
	if err := <-s.done; err != nil && !s.killed.Load() {
		s.t.Errorf("service: %v", err)
	}
	s.done <- nil
}

// Kill cuts the service's connection first, as if its process were gone: what it
// still does reaches nobody.
func (s *Service) Kill() {
	s.killed.Store(true)
	s.Conn.Close()
	s.stop()
}

func (f *Fleet) start(role, name string, run func(ctx context.Context, conn *mesh.Conn, ready func()) error) *Service {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &Service{Conn: f.connect(role, name), Name: name, stop: cancel, done: make(chan error, 1), t: f.t}
	f.all.mu.Lock()
	f.all.list = append(f.all.list, s)
	f.all.mu.Unlock()
	ready := make(chan struct{})
	go func() { s.done <- run(ctx, s.Conn, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-s.done:
		s.done <- nil
		f.t.Fatalf("%s: %v", name, err)
	}
	return s
}

// connect connects a service, with the credentials of its role where they matter.
func (f *Fleet) connect(role, name string) *mesh.Conn {
	if f.Mesh.Guard != nil {
		return f.Mesh.ConnectAs(role, f.wires...)
	}
	return f.Mesh.Connect(name, f.wires...)
}

// Orchestrator starts a replica.
func (f *Fleet) Orchestrator(change ...func(*orchestrator.Config)) *Service {
	f.t.Helper()
	return f.start(access.RoleOrchestrator, "orchestrator", func(ctx context.Context, conn *mesh.Conn, ready func()) error {
		cfg := orchestrator.Config{Verify: f.verifier.Verify, Ready: ready}
		for _, c := range change {
			c(&cfg)
		}
		return orchestrator.Run(ctx, cfg, conn)
	})
}

// Gateway starts a replica of the model gateway with the provider script.
func (f *Fleet) Gateway(change ...func(*modelgw.Config)) *Service {
	f.t.Helper()
	return f.start(access.RoleModels, "modelgw", func(ctx context.Context, conn *mesh.Conn, ready func()) error {
		cfg := modelgw.Config{Ready: ready}
		for _, c := range change {
			c(&cfg)
		}
		return modelgw.Run(ctx, cfg, conn)
	})
}

// Approvals starts a replica of the approvals service.
func (f *Fleet) Approvals(change ...func(*approvals.Config)) *Service {
	f.t.Helper()
	return f.start(access.RoleApprovals, "approvals", func(ctx context.Context, conn *mesh.Conn, ready func()) error {
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
	return f.Worker(worker.Config{Group: group}, tools...)
}

// Worker is Tools with a configuration; its Name is made up when empty.
func (f *Fleet) Worker(cfg worker.Config, tools ...tool.Tool) *Service {
	f.t.Helper()
	if cfg.Name == "" {
		cfg.Name = mesh.NewWorkerID(cfg.Group)
	}
	return f.start(access.ToolsRole(cfg.Group), cfg.Name, func(ctx context.Context, conn *mesh.Conn, ready func()) error {
		cfg.Verify, cfg.Ready = f.verifier.Verify, ready
		return worker.Run(ctx, cfg, conn, tools...)
	})
}

// Trap is where a replica of the orchestrator will be killed.
type Trap struct {
	Point orchestrator.Point
	Nth   int64 // of the passages from now on

	dead chan struct{}
}

// Dead is closed when the replica was killed.
func (t *Trap) Dead() <-chan struct{} { return t.dead }

// Trapped is a replica that a trap can be laid for.
type Trapped struct {
	*Service
	trap atomic.Pointer[Trap]
	left atomic.Int64
}

// Trapped starts a replica without a trap.
func (f *Fleet) Trapped(change ...func(*orchestrator.Config)) *Trapped {
	f.t.Helper()
	r := &Trapped{}
	hook := func(cfg *orchestrator.Config) {
		cfg.At = func(at orchestrator.Point, _ crumbs.RunID) {
			trap := r.trap.Load()
			if trap == nil || at != trap.Point || r.left.Add(-1) != 0 {
				return
			}
			r.Kill()
			close(trap.dead)
			f.Park()
		}
	}
	r.Service = f.Orchestrator(append(change, hook)...)
	return r
}

// Lay kills the replica when it passes the point for the nth time from now.
func (r *Trapped) Lay(point orchestrator.Point, nth int64) *Trap {
	trap := &Trap{Point: point, Nth: nth, dead: make(chan struct{})}
	r.left.Store(nth)
	r.trap.Store(trap)
	return trap
}
