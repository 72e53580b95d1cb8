package jscrumbs

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// Bounds of one reader.
const (
	pullMax      = 64               // messages it holds, of at most 256 KiB each
	reopenWait   = time.Second      // between two tries to go on
	consumerIdle = time.Minute      // after which the server forgets a reader that is gone
	closeTimeout = 2 * time.Second  // of telling the server that a reader is done
	openTimeout  = 10 * time.Second // of making the consumer
)

// reader reads one stream in order, message by message, from a place on, for
// ever. What it reads with is an ordered consumer: a single reader's own, without
// acks, kept in memory by the server, and made again from the message after the
// last one when it is lost. A slow reader holds up only itself.
type reader struct {
	conn   *mesh.Conn
	stream string
	filter string
	start  start
	lossy  bool // a message that cannot be read is skipped

	next   uint64 // stream sequence to go on from; 0 = start
	opened bool   // it had a consumer once; one that never had fails at once
}

// start is where a reader begins: at a time, after what is stored, or, when
// zero, with the first message.
type start struct {
	since   time.Time
	newOnly bool
}

// arrival is an item as a reader passes it to Follow, or why there is none.
type arrival struct {
	item    Item
	run     crumbs.RunID
	at      uint64 // its stream sequence
	opened  bool   // no item: reading deltas begins
	pending uint64 // messages stored that come after it
	err     error
}

// read reads until ctx ends or there is no going on: an arrival with an error is
// the last.
func (r *reader) read(ctx context.Context, out chan<- arrival) {
	for {
		err := r.session(ctx, out)
		if ctx.Err() != nil {
			return
		}
		if end := r.fatal(err); end != nil {
			send(ctx, out, arrival{err: end})
			return
		}
		r.conn.Log.Debug("reader lost its consumer", "stream", r.stream, "error", err)
		if !wait(ctx, reopenWait) {
			return
		}
	}
}

// fatal returns the fault a reader ends with, nil when it goes on.
func (r *reader) fatal(err error) error {
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound) && (!r.opened || !r.lossy):
		// DELTAS may go and come: a single server keeps no memory stream over a restart.
		return fault.New(fault.TopologyMissing, "stream %s is missing; run `crumb init`", r.stream)
	case errors.Is(err, jetstream.ErrConnectionClosed), r.conn.NATS.IsClosed():
		return fault.Wrap(fault.Unavailable, err, "the connection to NATS was closed while reading %s", r.stream)
	case fault.CodeOf(err) != "" && fault.CodeOf(err) != fault.Unavailable:
		return err
	case !r.opened:
		return fault.Wrap(fault.Unavailable, err, "cannot read %s: NATS did not answer: %v", r.stream, err)
	default:
		return nil
	}
}

// session reads with one consumer until that fails.
func (r *reader) session(ctx context.Context, out chan<- arrival) error {
	if r.conn.Restricted() {
		return r.tail(ctx, out)
	}
	consumer, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer r.forget(ctx, consumer)
	messages, err := consumer.Messages(jetstream.PullMaxMessages(pullMax))
	if err != nil {
		return err
	}
	r.opened = true
	defer messages.Stop()
	if r.lossy && !send(ctx, out, arrival{opened: true, pending: consumer.CachedInfo().NumPending}) {
		return ctx.Err()
	}
	for {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		a, err := r.arrive(ctx, msg.Subject(), msg.Headers(), msg.Data(), meta.NumPending)
		switch {
		case err != nil && !r.lossy:
			return err
		case err != nil:
			r.conn.Log.Debug("delta skipped", "subject", msg.Subject(), "error", err)
		default:
			if a.at = meta.Sequence.Stream; !send(ctx, out, a) {
				return ctx.Err()
			}
		}
		r.next = meta.Sequence.Stream + 1
	}
}

func (r *reader) open(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if r.next == 0 && r.start.newOnly {
		// Pinned to a sequence: a consumer for new messages that is made again
		// would start after what was stored meanwhile.
		s, err := r.conn.JS.Stream(ctx, r.stream)
		if err != nil {
			return nil, err
		}
		r.next = s.CachedInfo().State.LastSeq + 1
	}
	cfg := jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{r.filter}, DeliverPolicy: jetstream.DeliverAllPolicy,
		InactiveThreshold: consumerIdle, MaxResetAttempts: 1,
	}
	switch {
	case r.next > 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, r.next
	case !r.start.since.IsZero():
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &r.start.since
	}
	return r.conn.JS.OrderedConsumer(ctx, r.stream, cfg)
}

// forget lets the server drop the consumer at once; failing that, it does so
// after consumerIdle.
func (r *reader) forget(ctx context.Context, consumer jetstream.Consumer) {
	info := consumer.CachedInfo()
	if info == nil || !r.conn.NATS.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := r.conn.JS.DeleteConsumer(ctx, r.stream, info.Name); err != nil {
		r.conn.Log.Debug("consumer left to expire", "stream", r.stream, "error", err)
	}
}

// arrive reads a message's body, a claim check from where it stands.
func (r *reader) arrive(ctx context.Context, subject string, header nats.Header, data []byte, pending uint64) (arrival, error) {
	event, err := crumbs.ReadEvent(header, data)
	if err != nil {
		return arrival{}, err
	}
	blobs := r.conn.Blobs(area(r.stream, subject))
	body, err := blobs.CheckOut(ctx, event.Data)
	for ; fault.CodeOf(err) == fault.Unavailable && !r.lossy; body, err = blobs.CheckOut(ctx, event.Data) {
		if !wait(ctx, reopenWait) {
			return arrival{}, ctx.Err()
		}
	}
	if err != nil {
		return arrival{}, err
	}
	item, err := readItem(subject, body)
	item.Pending = pending
	return arrival{item: item, run: crumbs.RunID(crumbs.Token(subject, tokenRun)), pending: pending}, err
}

// area is where the large bodies of a stream stand: of deltas only the partial
// results of a group, which its subject names, may be large.
func area(stream, subject string) crumbs.Area {
	if stream == crumbs.StreamCrumbs {
		return crumbs.AreaCrumb
	}
	return crumbs.AreaLive(crumbs.Token(subject, tokenGroup))
}

func send(ctx context.Context, out chan<- arrival, a arrival) bool {
	select {
	case out <- a:
		return true
	case <-ctx.Done():
		return false
	}
}

func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
