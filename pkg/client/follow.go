package client

import (
	"context"
	"iter"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs/jscrumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// settleWait is how long after its end a run's crumbs may not be stored yet.
const settleWait = time.Minute

// Item is one crumb or delta of a run.
type Item = jscrumbs.Item

// FollowOption changes what Follow, Wait and Run do.
type FollowOption func(*following)

type following struct {
	jscrumbs.FollowConfig
	started  bool
	detached bool
	asked    func(context.Context, crumbs.HumanRequired) // of OnHumanRequired
}

func followingOf(opts []FollowOption) following {
	var f following
	for _, o := range opts {
		o(&f)
	}
	return f
}

// After leaves out the crumbs up to the number seq: those that were seen.
func After(seq uint64) FollowOption { return func(f *following) { f.After = seq } }

// WithDeltas merges in what is live only: tokens and partial results.
func WithDeltas() FollowOption { return func(f *following) { f.Deltas = true } }

// UntilSuspended ends also when the run waits for people.
func UntilSuspended() FollowOption { return func(f *following) { f.UntilSuspended = true } }

// Started says that the run was asked for by this caller, of an agent: it is
// waited for without asking whether anybody knows it.
func Started(agent crumbs.AgentID) FollowOption {
	return func(f *following) { f.started, f.Agent = true, agent }
}

// Follow hands on the crumbs of a run, those that are stored and then each as it
// comes, until the run ends; see jscrumbs.Follow for the order, the deltas and
// what reconnecting means. Any number of clients may follow one run. Ending ctx
// or the loop ends the reading, never the run: a follower did not ask for it.
//
// The last pair has the error, if there is one: RUN_NOT_FOUND for an id nobody
// knows, CRUMBS_EXPIRED when what is asked for is older than the mesh keeps,
// UNAVAILABLE, or the error of ctx.
func (c *Client) Follow(ctx context.Context, run crumbs.RunID, opts ...FollowOption) iter.Seq2[Item, error] {
	f := followingOf(opts)
	f.Run = run
	return func(yield func(Item, error) bool) {
		more, err := c.known(ctx, f)
		if err != nil {
			yield(Item{}, err)
			return
		}
		if more {
			if f.asked != nil {
				t := &teller{tell: f.asked, log: c.conn.Log}
				defer t.told.Wait()
				yield = t.beside(ctx, yield)
			}
			jscrumbs.Follow(ctx, c.conn, f.FollowConfig)(yield)
		}
	}
}

// known reports whether there is something to follow, or will be. What is stored
// answers that without a service; only for a run without crumbs its record is
// asked for.
func (c *Client) known(ctx context.Context, f following) (bool, error) {
	if f.started {
		return true, nil
	}
	if err := crumbs.CheckRunID("run", string(f.Run)); err != nil {
		return false, err
	}
	last, err := jscrumbs.LastSeen(ctx, c.conn, crumbs.RunCrumbsFilter(f.Run))
	if err != nil || last.Seq > 0 {
		return true, orContext(ctx, err)
	}
	view, err := c.RunView(ctx, f.Run)
	if err != nil {
		return false, err
	}
	switch ended := view.EndedAt != nil && time.Since(view.EndedAt.Time) > settleWait; {
	case ended && view.Seq == 0:
		return false, fault.New(fault.RunNotFound, "run %s was cancelled before it was asked for; it has no crumbs", f.Run)
	case ended && view.Seq > f.After:
		return false, fault.New(fault.CrumbsExpired, "all crumbs of run %s are gone, it ended %s with number %d; read the run as it is",
			f.Run, view.Status, view.Seq).With("runId", f.Run).With("firstSeq", view.Seq+1).With("status", view.Status)
	case ended:
		return false, nil
	}
	return true, nil
}

// orContext returns the error of a context that ended instead of what that led to.
func orContext(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// FollowAll hands on the crumbs of every run that are stored from now on or, when
// since is not zero, from that time on, until ctx ends. Order is promised inside
// each run.
func (c *Client) FollowAll(ctx context.Context, since time.Time, deltas bool) iter.Seq2[Item, error] {
	return jscrumbs.Follow(ctx, c.conn, jscrumbs.FollowConfig{All: true, Since: since, Deltas: deltas})
}
