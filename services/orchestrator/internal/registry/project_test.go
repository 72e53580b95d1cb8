package registry_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/registry"
)

const (
	readers  = 32
	flushMax = 10 * time.Second
)

func apply(t *testing.T, r *registry.Registry, revision int) {
	t.Helper()
	changed, err := r.Apply(context.Background(), registry.Project{Revision: strconv.Itoa(revision)}, nil)
	if err != nil || !changed {
		t.Errorf("revision %d: changed %v, %v", revision, changed, err)
	}
}

func revision(t *testing.T, r *registry.Registry) int {
	t.Helper()
	p, _, err := r.Project(context.Background())
	if err != nil {
		t.Error(err)
		return 0
	}
	n, err := strconv.Atoi(p.Revision)
	if err != nil {
		t.Error(err)
	}
	return n
}

// An applied project serves who asks after Apply returned, on every replica, also
// when reads are shared.
func TestRegistry_ProjectIsNeverOlderThanTheQuestion(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	writer, other := registry.New(m.Connect("writer")), registry.New(m.Connect("other"))
	apply(t, writer, 1)
	const last = 30
	var applied struct {
		sync.Mutex
		revision int
	}
	applied.revision = 1
	var group sync.WaitGroup
	for range readers {
		group.Go(func() {
			for {
				applied.Lock()
				before := applied.revision
				applied.Unlock()
				if now := revision(t, other); now < before {
					t.Errorf("asked after revision %d was applied, got %d", before, now)
					return
				}
				if before == last {
					return
				}
			}
		})
	}
	for n := 2; n <= last; n++ {
		apply(t, writer, n)
		applied.Lock()
		applied.revision = n
		applied.Unlock()
	}
	group.Wait()
}

// Requests that come together share reads.
func TestRegistry_ProjectReadsAreShared(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	conn := m.Connect("orchestrator")
	r := registry.New(conn)
	apply(t, r, 1)
	reads := make(chan *nats.Msg, readers)
	if _, err := m.Conn.NATS.ChanSubscribe("$JS.API.STREAM.MSG.GET.KV_"+crumbs.BucketAgents, reads); err != nil {
		t.Fatal(err)
	}
	flush(t, m.Conn)
	var ready, group sync.WaitGroup
	ready.Add(readers)
	for range readers {
		group.Go(func() {
			ready.Done()
			ready.Wait() // all at once
			if n := revision(t, r); n != 1 {
				t.Errorf("revision %d", n)
			}
		})
	}
	group.Wait()
	flush(t, m.Conn)
	if n := len(reads); n == 0 || n > readers/2 {
		t.Errorf("%d reads for %d who asked at once", n, readers)
	}
}

func flush(t *testing.T, c *mesh.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), flushMax)
	defer cancel()
	if err := c.NATS.FlushWithContext(ctx); err != nil {
		t.Fatal(err)
	}
}

// Who gives up does not take the read away from the others.
func TestRegistry_ProjectReaderMayLeave(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	r := registry.New(m.Connect("orchestrator"))
	apply(t, r, 1)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	var group sync.WaitGroup
	for range readers {
		group.Go(func() {
			_, _, _ = r.Project(gone) // may be read before anybody looks at the context
		})
		group.Go(func() {
			if n := revision(t, r); n != 1 {
				t.Errorf("revision %d", n)
			}
		})
	}
	group.Wait()
}
