package jscrumbs

import (
	"context"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// Pauses of a reader without a consumer.
const (
	tailIdle     = time.Second          // until it looks although nothing woke it
	tailEager    = 5 * time.Millisecond // after what woke it and is not stored yet; doubles
	tailEagerMax = 500 * time.Millisecond
	tailLooks    = 8 // such looks in a row
)

// headerPending says with a message how many are stored after it.
const headerPending = "Nats-Num-Pending"

// tail reads as session does, for those who may make no consumer: whoever may make
// one says where it delivers, and no permission covers that (docs/security.md). The
// log is read in batches; the live messages, which are not stored yet and may never
// be, only say when to look.
func (r *reader) tail(ctx context.Context, out chan<- arrival) error {
	wake := make(chan struct{}, 1)
	sub, err := r.conn.NATS.Subscribe(r.filter, func(*nats.Msg) {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	flush, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if err := r.conn.NATS.FlushWithContext(flush); err != nil { // from here on it is woken
		return err
	}
	if err := r.pin(ctx); err != nil {
		return r.missing(err)
	}
	begun, looks := false, tailLooks // other servers may hear of the subscription a little later
	for {
		messages, pending, err := r.conn.Batch(ctx, mesh.Scan{Stream: r.stream, Filter: r.filter, From: r.next, Since: r.start.since})
		if err != nil {
			return r.missing(err)
		}
		r.opened = true
		if !begun && r.lossy && !send(ctx, out, arrival{opened: true, pending: pending + uint64(len(messages))}) {
			return ctx.Err()
		}
		begun = true
		for _, m := range messages {
			if err := r.pass(ctx, m, out); err != nil {
				return err
			}
			r.next = m.Sequence + 1
		}
		if pending > 0 {
			continue
		}
		if looks, err = rest(ctx, wake, looks); err != nil {
			return err
		}
	}
}

// pin makes a reader of new messages begin after what is stored now.
func (r *reader) pin(ctx context.Context) error {
	if r.next != 0 || !r.start.newOnly {
		return nil
	}
	last, err := r.conn.LastDirect(ctx, r.stream, allOf(r.stream))
	if err == nil {
		r.next = 1
		if last != nil {
			r.next = last.Sequence + 1
		}
	}
	return err
}

func allOf(stream string) string {
	if stream == crumbs.StreamCrumbs {
		return crumbs.SubjectCrumbs
	}
	return crumbs.SubjectDeltas
}

// missing keeps a reader that once read, or of what may go and come, from ending
// for a stream that is not there now.
func (r *reader) missing(err error) error {
	if fault.CodeOf(err) == fault.TopologyMissing && (r.opened || r.lossy) {
		return fault.Wrap(fault.Unavailable, err, "%s does not answer", r.stream)
	}
	return err
}

func (r *reader) pass(ctx context.Context, m *mesh.Stored, out chan<- arrival) error {
	pending, _ := strconv.ParseUint(m.Header.Get(headerPending), 10, 64) // absent: none
	a, err := r.arrive(ctx, m.Subject, m.Header, m.Data, pending)
	switch {
	case err != nil && !r.lossy:
		return err
	case err != nil:
		r.conn.Log.Debug("delta skipped", "subject", m.Subject, "error", err)
	default:
		if a.at = m.Sequence; !send(ctx, out, a) {
			return ctx.Err()
		}
	}
	return nil
}

// rest waits until there is reason to look again and returns how many looks are
// left that expect what was heard.
func rest(ctx context.Context, wake <-chan struct{}, looks int) (int, error) {
	idle := tailIdle
	if looks > 0 {
		idle = min(tailEager<<(tailLooks-looks), tailEagerMax)
	}
	t := time.NewTimer(idle)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-wake:
		return tailLooks, nil
	case <-t.C:
		return max(0, looks-1), nil
	}
}
