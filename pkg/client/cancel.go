package client

import (
	"context"
	"math"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// CancelWait is how long Run waits for the end of a run that it cancelled: the ten
// seconds that running calls have to stop, and room.
const CancelWait = 30 * time.Second

// contextEnded is the reason of a run's end that its caller's context brought about.
const contextEnded = "the caller's context ended"

// Detached keeps Run from cancelling its run when ctx ends. Follow and Wait never
// cancel.
func Detached() FollowOption { return func(f *following) { f.detached = true } }

// waitOrCancel waits for the outcome of a run, and cancels it when ctx ends: at
// once, whatever OnHumanRequired is busy with.
func (c *Client) waitOrCancel(ctx context.Context, run Run, opts []FollowOption) (Outcome, error) {
	cancelled := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { cancelled <- c.cancel(ctx, run.ID) })
	out, err := c.Wait(ctx, run.ID, opts...)
	if stop() {
		return out, err
	}
	if err = <-cancelled; err == nil {
		out, err = c.waitEnd(ctx, run)
	}
	if err != nil {
		return Outcome{Run: run.ID}, fault.Wrap(fault.Unavailable, ctx.Err(), "run %s may go on: its context ended, and it was not seen to be cancelled: %v", run.ID, err)
	}
	return out, nil
}

// cancel ends a run although ctx has ended.
func (c *Client) cancel(ctx context.Context, run crumbs.RunID) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), CancelWait)
	defer stop()
	_, err := c.Cancel(ctx, run, contextEnded)
	return err
}

// waitEnd waits for the end of a run that was cancelled although ctx has ended. No
// suspension is an outcome any more.
func (c *Client) waitEnd(ctx context.Context, run Run) (Outcome, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), CancelWait)
	defer stop()
	return c.Wait(ctx, run.ID, Started(run.Agent), After(math.MaxUint64))
}
