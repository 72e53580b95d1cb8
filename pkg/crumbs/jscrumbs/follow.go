package jscrumbs

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// Bounds of what one Follow keeps in memory because its turn has not come. A
// reader at a bound stops reading that stream until there is room.
const (
	crumbsHeldMax = 1024
	deltasHeldMax = 4096
	endedMax      = 1024 // runs whose end All remembers, to drop their late deltas
)

// FollowConfig says what to follow: the crumbs of one run, or of all.
type FollowConfig struct {
	Run   crumbs.RunID
	Agent crumbs.AgentID // of Run, when known: a narrower filter
	After uint64         // number of the last crumb that is not wanted again

	All   bool      // every run, from the crumbs stored from now on
	Since time.Time // with All: from the crumbs stored since then

	// Deltas merges in what is live only: tokens and partial results.
	Deltas bool

	// UntilSuspended ends also after a crumb that leaves the run waiting for
	// people, unless the run has gone on since.
	UntilSuspended bool
}

func (c FollowConfig) check() error {
	switch {
	case c.All && (c.Run != "" || c.Agent != "" || c.After != 0 || c.UntilSuspended):
		return fault.New(fault.InvalidInput, "follow: All takes neither Run, Agent, After nor UntilSuspended; follow one run or all")
	case c.All:
		return nil
	case !c.Since.IsZero():
		return fault.New(fault.InvalidInput, "follow: Since goes with All; a run is followed After the number of a crumb")
	case c.Agent != "":
		if err := crumbs.CheckAgentID(string(c.Agent)); err != nil {
			return err
		}
	}
	return crumbs.CheckRunID("run", string(c.Run))
}

func (c FollowConfig) filters() (stored, live string) {
	if c.All {
		return crumbs.SubjectCrumbs, crumbs.SubjectDeltas
	}
	if c.Agent != "" {
		return crumbs.CrumbFilter(c.Agent, c.Run), crumbs.RunDeltasFilter(c.Run)
	}
	return crumbs.RunCrumbsFilter(c.Run), crumbs.RunDeltasFilter(c.Run)
}

// Follow hands on the crumbs of a run with a number above After, first those that
// are stored, then each as it comes: without hole, without double, in order. Any
// number of readers may follow; each reads for itself, so a slow one and one that
// stops disturb nobody. Lost connections are made again and followed on from.
//
// It ends after the run's terminal crumb (agent:run:end, agent:error); at once,
// without an item, when that is not above After. A run of which nothing is stored
// yet is waited for. All never ends, and promises order inside each run.
//
// With Deltas each delta comes after the crumb it names and in order inside its
// call, and the crumb that closes a call after the call's deltas; for one that
// does not come Follow waits DeltaWait, then says DeltasMissing. A delta may come
// again in another Follow: it has no number of its own.
//
// The last pair has the error, if there is one: CRUMBS_EXPIRED when crumbs above
// After are older than the stream keeps (`firstSeq` in its context is the first
// that is there), INVALID_INPUT or INVALID_NAME for a config that makes no sense,
// TOPOLOGY_MISSING, UNAVAILABLE when NATS does not answer at the start, the
// connection is closed, or the replicas that answer lack crumbs that their leader has,
// or the error of ctx. Ending ctx ends only the reading.
func Follow(ctx context.Context, conn *mesh.Conn, cfg FollowConfig) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		if err := cfg.check(); err != nil {
			yield(Item{}, err)
			return
		}
		reading, stop := context.WithCancel(ctx)
		defer stop()
		from := start{since: cfg.Since, newOnly: cfg.All && cfg.Since.IsZero()}
		stored, live := cfg.filters()
		f := &follower{cfg: cfg, runs: map[crumbs.RunID]*merge{}, yield: yield, log: &leaderLog{conn: conn, filter: stored, start: from}}
		f.begin(reading, 0)
		f.live.caught = !cfg.Deltas
		if cfg.Deltas {
			f.deltas = make(chan arrival)
			go (&reader{conn: conn, stream: crumbs.StreamDeltas, filter: live, start: from, lossy: true}).read(reading, f.deltas)
		}
		if err := f.run(reading); err != nil {
			yield(Item{}, err)
		}
	}
}

// follower is one Follow while it runs.
type follower struct {
	cfg    FollowConfig
	yield  func(Item, error) bool
	crumbs chan arrival
	deltas chan arrival // nil without Deltas

	log     crumbLog
	stop    context.CancelFunc // of the reading of crumbs
	at      uint64             // stream sequence of the last crumb that was taken
	gaps    int                // readings in a row that lacked the same crumbs
	live    tide
	runs    map[crumbs.RunID]*merge
	holding []*merge       // those that may go on by themselves, oldest first
	ended   []crumbs.RunID // the last runs that ended, with All
	spent   time.Duration  // in the caller's hands: no time anything was late by
	done    bool
}

func (f *follower) now() time.Time { return time.Now().Add(-f.spent) }

func (f *follower) run(ctx context.Context) error {
	for !f.done {
		timer, stop := f.timer()
		fromCrumbs, fromDeltas := f.open()
		var err error
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case a := <-fromCrumbs:
			err = f.arrived(a)
			if fault.CodeOf(err) == fault.CrumbsExpired {
				err = f.doubt(ctx, a, err)
			}
		case a := <-fromDeltas:
			err = f.arrived(a)
		case <-timer:
			f.woken()
		}
		stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// open returns the channels to read from now: not one that would exceed a bound.
func (f *follower) open() (fromCrumbs, fromDeltas chan arrival) {
	queued, waiting := 0, 0
	for _, m := range f.holding {
		queued, waiting = queued+len(m.queue), waiting+m.waiting
	}
	if queued < crumbsHeldMax {
		fromCrumbs = f.crumbs
	}
	if waiting < deltasHeldMax {
		fromDeltas = f.deltas
	}
	return fromCrumbs, fromDeltas
}

// timer fires when the earliest merge goes on by itself.
func (f *follower) timer() (<-chan time.Time, func() bool) {
	var wake time.Time
	for _, m := range f.holding {
		if t := m.wake(); !t.IsZero() && (wake.IsZero() || t.Before(wake)) {
			wake = t
		}
	}
	if wake.IsZero() {
		return nil, func() bool { return true }
	}
	t := time.NewTimer(wake.Sub(f.now()))
	return t.C, t.Stop
}

func (f *follower) arrived(a arrival) error {
	switch {
	case a.err != nil:
		return a.err
	case a.opened:
		f.flow(a)
		return nil
	case a.item.Delta:
		m := f.merge(a.run)
		if m != nil {
			m.delta(a.item, f.now())
		}
		if f.flow(a); m != nil {
			f.pass(m)
		}
		return nil
	default:
		return f.arrivedCrumb(a)
	}
}

func (f *follower) arrivedCrumb(a arrival) error {
	m := f.merge(a.run)
	if m == nil {
		return nil
	}
	if f.deltas == nil {
		a.item.deltas = 0 // none is waited for
	}
	if err := m.crumb(a.item, f.now()); err != nil {
		return err
	}
	f.at, f.gaps = a.at, 0
	f.pass(m)
	return nil
}

// flow notes how far the reading of deltas has come. A reader that begins, also
// again after a reconnect, has to catch up.
func (f *follower) flow(a arrival) {
	f.live.moved = f.now()
	f.live.caught = a.pending == 0 || f.live.caught && !a.opened
	if f.live.caught {
		f.woken() // what was held for it
	}
}

// merge returns the merge of a run, nil for one that ended.
func (f *follower) merge(run crumbs.RunID) *merge {
	m := f.runs[run]
	if m == nil && !slices.Contains(f.ended, run) {
		m = newMerge(run, f.cfg.After, !f.cfg.All, &f.live)
		f.runs[run] = m
	}
	return m
}

func (f *follower) woken() {
	for _, m := range slices.Clone(f.holding) {
		if f.pass(m); f.done {
			return
		}
	}
}

// pass hands on what is ready of a run, and notes whether something waits.
func (f *follower) pass(m *merge) {
	for !f.done {
		i, ok := m.next(f.now())
		if !ok {
			break
		}
		handed := time.Now()
		if !f.yield(i, nil) {
			f.done = true
		}
		f.spent += time.Since(handed)
		if f.cfg.UntilSuspended && i.Suspended && i.Pending == 0 && len(m.queue) == 0 {
			f.done = true
		}
	}
	at := slices.Index(f.holding, m)
	switch holds := !m.ended && (len(m.queue) > 0 || m.waiting > 0); {
	case holds && at < 0:
		f.holding = append(f.holding, m)
	case !holds && at >= 0:
		f.holding = slices.Delete(f.holding, at, at+1)
	}
	if m.ended {
		f.end(m.run)
	}
}

func (f *follower) end(run crumbs.RunID) {
	if !f.cfg.All {
		f.done = true
		return
	}
	delete(f.runs, run)
	if f.ended = append(f.ended, run); len(f.ended) > endedMax {
		f.ended = f.ended[1:]
	}
}
