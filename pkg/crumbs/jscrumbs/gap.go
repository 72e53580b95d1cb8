package jscrumbs

import (
	"context"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// Reading again where crumbs are missing: whoever answered may be a replica that
// does not have them.
const (
	gapTries = 5
	gapWait  = time.Second
)

// crumbLog is where a follower has its crumbs from.
type crumbLog interface {
	// read starts a reading from a stream sequence on, 0 = where Follow begins, until
	// ctx ends.
	read(ctx context.Context, from uint64) chan arrival
	// first is the number of the first crumb of a run that the stream's leader has from
	// a sequence on, 0 when it has none. asked is false for who may not ask the leader.
	first(ctx context.Context, run crumbs.RunID, from uint64) (number uint64, asked bool, err error)
}

// doubt decides what it means that crumbs before a are missing: they are gone, when
// the leader does not have them either; else they are read again. It returns missing,
// UNAVAILABLE when no reading has them, or the error of ctx.
func (f *follower) doubt(ctx context.Context, a arrival, missing error) error {
	number, asked, err := f.log.first(ctx, a.run, f.at+1)
	if asked && err == nil && number >= a.item.Seq {
		return missing
	}
	if f.gaps++; f.gaps >= gapTries {
		if !asked {
			return missing
		}
		return fault.Wrap(fault.Unavailable, err, "run %s: crumbs before %d are on the leader of stream %s and not on the replica that answers; `crumb doctor` names replicas that are behind",
			a.run, a.item.Seq, crumbs.StreamCrumbs)
	}
	if !wait(ctx, gapWait) {
		return ctx.Err()
	}
	f.begin(ctx, f.at+1)
	return nil
}

// begin reads the crumbs from a stream sequence on, and nowhere else any more.
func (f *follower) begin(ctx context.Context, from uint64) {
	if f.stop != nil {
		f.stop()
	}
	ctx, f.stop = context.WithCancel(ctx)
	f.crumbs = f.log.read(ctx, from)
}

// leaderLog reads the stream of crumbs.
type leaderLog struct {
	conn   *mesh.Conn
	filter string
	start  start
}

func (l *leaderLog) read(ctx context.Context, from uint64) chan arrival {
	out := make(chan arrival)
	go (&reader{conn: l.conn, stream: crumbs.StreamCrumbs, filter: l.filter, start: l.start, next: from, opened: from > 0}).read(ctx, out)
	return out
}

func (l *leaderLog) first(ctx context.Context, run crumbs.RunID, from uint64) (number uint64, asked bool, err error) {
	if l.conn.Restricted() {
		return 0, false, nil
	}
	m, err := l.conn.Next(ctx, crumbs.StreamCrumbs, crumbs.RunCrumbsFilter(run), from)
	fence, err := fenceOf(m, err)
	return fence.Seq, true, err
}
