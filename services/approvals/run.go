package approvals

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/approvals/internal/worker"
)

const (
	// crumbsInHand is how many crumbs are worked on at once.
	crumbsInHand = 64
)

// Run serves approvals until ctx ends, then finishes the crumbs in hand and
// returns nil. It fails with INVALID_CONFIG (no usable key, or another than this
// mesh's), TOPOLOGY_MISSING
// naming the command that repairs it, or UNAVAILABLE when NATS does not answer
// while the service starts.
func Run(ctx context.Context, cfg Config, conn *mesh.Conn) error {
	cfg, err := cfg.complete()
	if err != nil {
		return err
	}
	if err := conn.Verify(ctx, needs(), nil); err != nil {
		return err
	}
	key, trust, err := cfg.keys(ctx, conn)
	if err != nil {
		return err
	}
	register := worker.NewRegister(conn, trust)
	if err := register.EnsureBuilt(ctx); err != nil {
		return err
	}
	publisher := worker.NewPublisher(conn, register, cfg.RepublishEvery)
	publisher.Hold = func(ctx context.Context) error { return worker.NewSigner(conn).Hold(ctx, key, cfg.Replaces) }
	desk := &worker.Desk{Register: register, Publisher: publisher, Key: key, AfterRecord: cfg.AfterRecord}
	loop, err := conn.NewLoop(ctx, mesh.ConsumeConfig{
		Stream: crumbs.StreamCrumbs, Consumer: mesh.ConsumerApprovals, Capacity: crumbsInHand, Grace: cfg.Grace,
	}, register.Handle)
	if err != nil {
		return err
	}
	service, err := conn.Serve("approvals", "questions to people and their answers", desk.Endpoints()...)
	if err != nil {
		return err
	}
	defer func() {
		if err := service.Stop(); err != nil {
			conn.Log.Debug("stop endpoints", "error", err)
		}
	}()
	group, work := errgroup.WithContext(ctx)
	group.Go(func() error { return loop.Run(work) })
	group.Go(func() error { return publisher.Run(work) })
	standing := conn.Standing(needs(), map[string][]string{crumbs.StreamCrumbs: {mesh.ConsumerApprovals}})
	group.Go(func() error { standing.Run(work); return nil })
	healthy := func() error { return errors.Join(standing.Health(), conn.Health(), loop.Health()) }
	conn.Report(healthy)
	if cfg.Health != nil {
		cfg.Health(healthy)
	}
	if cfg.Ready != nil {
		cfg.Ready()
	}
	return group.Wait()
}

// needs are what approvals works on beside its queue.
func needs() []mesh.Need {
	rows := mesh.NeedBucket(crumbs.BucketApprovals, ">")
	rows.Leader = true
	return []mesh.Need{rows, {Stream: crumbs.StreamInbox, Filter: "approval.decision.>"},
		{Stream: crumbs.StreamBlobs, Filter: crumbs.BlobFilter(crumbs.AreaApproval)}, {Stream: crumbs.StreamDead, Filter: "dead." + crumbs.StreamCrumbs + ".>"}}
}
