// Package gauge measures what belongs to the mesh and to no process: queues,
// streams, workers and runs. It reads them when somebody reads the metrics, from
// the server, so every replica shows the same and a restart changes nothing. It
// never reads more often than its bounds allow, whoever asks.
package gauge

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry/instrument"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

const (
	// readEvery is how old the numbers of queues and streams may be.
	readEvery = 10 * time.Second
	// censusEvery and censusShare bound how often the runs are counted: not more
	// often than every 30 s, and so that counting takes at most a twentieth of the
	// time, however many runs there are.
	censusEvery = 30 * time.Second
	censusShare = 20
	// censusMax bounds the runs that are counted; then the numbers are "at least".
	censusMax = 2_000_000
	// readMax bounds one reading: whoever reads the metrics waits for it.
	readMax   = 5 * time.Second
	censusFor = 20 * time.Second
)

// Gauges is a cached view of the mesh.
type Gauges struct {
	conn     *mesh.Conn
	failures *instrument.Counter

	mu      sync.Mutex // held while reading: two readers at once share one reading
	read    time.Time
	streams []mesh.StreamState
	queues  []queue
	workers map[place]int
	counted time.Time // when the census ended
	took    time.Duration
	census  census
}

type queue struct {
	mesh.Load
	age time.Duration
}

type place struct{ service, queue string }

// census is what the headers of all records say.
type census struct {
	byStatus map[core.Status]int
	open     int // questions
	oldest   time.Time
}

// Serve measures until stop is called.
func Serve(conn *mesh.Conn) (stop func()) {
	g := &Gauges{conn: conn, failures: instrument.NewCounter(conn.Meter, instrument.MeshReadErrors)}
	return instrument.Observe(conn.Meter, g.observe, instrument.StreamMessages, instrument.StreamBytes, instrument.StreamLimit,
		instrument.QueuePending, instrument.QueueInHand, instrument.QueueAge, instrument.QueueWorkers,
		instrument.RunsCurrent, instrument.ApprovalsOpen, instrument.ApprovalsAge)
}

// observe says what is known, after reading what is too old. A reading that fails
// leaves the last numbers.
func (g *Gauges) observe(ctx context.Context, set instrument.Set) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.read) >= readEvery {
		g.try(ctx, readMax, g.readMesh)
	}
	if time.Since(g.counted) >= max(censusEvery, censusShare*g.took) {
		g.try(ctx, censusFor, g.readRuns)
	}
	for _, s := range g.streams {
		set(instrument.StreamMessages, float64(s.Messages), s.Name)
		set(instrument.StreamBytes, float64(s.Bytes), s.Name)
		if s.Limit > 0 {
			set(instrument.StreamLimit, float64(s.Limit), s.Name)
		}
	}
	for _, q := range g.queues {
		set(instrument.QueuePending, float64(q.Pending), q.Stream, q.Consumer)
		set(instrument.QueueInHand, float64(q.InHand), q.Stream, q.Consumer)
		set(instrument.QueueAge, q.age.Seconds(), q.Stream, q.Consumer)
	}
	for at, n := range g.workers {
		set(instrument.QueueWorkers, float64(n), at.service, at.queue)
	}
	if g.census.byStatus == nil {
		return nil // never counted
	}
	for _, s := range []core.Status{core.Running, core.Suspended, core.Stopping} {
		set(instrument.RunsCurrent, float64(g.census.byStatus[s]), string(s))
	}
	set(instrument.ApprovalsOpen, float64(g.census.open))
	age := time.Duration(0)
	if !g.census.oldest.IsZero() {
		age = max(0, time.Since(g.census.oldest))
	}
	set(instrument.ApprovalsAge, age.Seconds())
	return nil
}

func (g *Gauges) try(ctx context.Context, limit time.Duration, read func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := read(ctx); err != nil {
		g.failures.Add(ctx, 1)
		g.conn.Log.Warn("metrics of the mesh not read", "error", err)
	}
}

func (g *Gauges) readMesh(ctx context.Context) error {
	g.read = time.Now() // also of a reading that fails: NATS is not asked more often for being slow
	streams, err := g.conn.StreamStates(ctx)
	if err != nil {
		return err
	}
	all, err := g.conn.Loads(ctx)
	if err != nil {
		return err
	}
	present, err := g.conn.Present(ctx)
	if err != nil {
		return err
	}
	queues, workers := make([]queue, 0, len(all)), map[place]int{}
	for _, q := range all {
		oldest, err := g.conn.Oldest(ctx, q)
		if err != nil {
			return err
		}
		age := time.Duration(0)
		if !oldest.Stored.IsZero() {
			age = max(0, time.Since(oldest.Stored))
		}
		queues = append(queues, queue{q, age})
		if service, name, ok := mesh.QueueOf(q.Consumer); ok {
			workers[place{service, name}] = 0
		}
	}
	for _, p := range present {
		at := place{p.Service, p.Queue}
		if _, has := workers[at]; has {
			workers[at]++
		}
	}
	g.streams, g.queues, g.workers = streams, queues, workers
	return nil
}

// readRuns counts the records of runs by their headers.
func (g *Gauges) readRuns(ctx context.Context) error {
	began := time.Now()
	defer func() { g.counted, g.took = time.Now(), time.Since(began) }()
	c, n := census{byStatus: map[core.Status]int{}}, 0
	err := g.conn.Bucket(crumbs.BucketRuns).Heads(ctx, ">", func(r mesh.Record) bool {
		n++
		c.add(r)
		return n < censusMax
	})
	if err == nil {
		g.census = c
	}
	return err
}

func (c *census) add(r mesh.Record) {
	c.byStatus[core.Status(r.Head(core.HeadStatus))]++
	open, err := strconv.Atoi(r.Head(core.HeadOpen))
	asked, askedErr := strconv.ParseInt(r.Head(core.HeadAsked), 10, 64)
	if err != nil || askedErr != nil {
		return
	}
	c.open += open
	if at := time.UnixMilli(asked); c.oldest.IsZero() || at.Before(c.oldest) {
		c.oldest = at
	}
}
