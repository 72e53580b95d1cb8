package mesh

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Queue is what a consumer of a work queue takes by one of its filters, as its server
// tells of it.
type Queue struct {
	Consumer string
	Filter   string // `>` of a consumer that takes everything
	// Holds is how many messages its consumer will still give out or has in hand; told
	// with the first of its filters.
	Holds uint64
	// Floor is a sequence: what matches, and is still stored at it or below, will not
	// be delivered any more.
	Floor uint64
}

// Everything is the Floor of a queue whose consumer is gone.
const Everything = uint64(math.MaxUint64)

// Queues lists the consumers of a stream. A message that was delivered as often as
// its consumer does stays in a work queue for ever: it is neither pending nor
// waiting, only stored.
func (c *Conn) Queues(ctx context.Context, stream string) ([]Queue, error) {
	s, err := c.stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded(ctx, requestTimeout)
	defer cancel()
	var out []Queue
	list := s.ListConsumers(ctx)
	for info := range list.Info() {
		q := Queue{Consumer: info.Name, Filter: info.Config.FilterSubject, Floor: info.AckFloor.Stream, Holds: info.NumPending + uint64(info.NumAckPending)}
		if info.NumAckPending == 0 {
			q.Floor = info.Delivered.Stream // the floor moves with an acknowledgement only
		}
		filters := info.Config.FilterSubjects
		if len(filters) == 0 {
			filters = []string{cmp.Or(q.Filter, ">")}
		}
		for _, q.Filter = range filters {
			out = append(out, q)
			q.Holds = 0
		}
	}
	if err := list.Err(); err != nil {
		return nil, unavailable(err, "consumers of "+stream)
	}
	return out, nil
}

// Next returns the first message of a stream that matches filter and has at least
// the sequence from, nil when there is none.
func (c *Conn) Next(ctx context.Context, stream, filter string, from uint64) (*Stored, error) {
	s, err := c.stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded(ctx, requestTimeout)
	defer cancel()
	m, err := s.GetMsg(ctx, max(from, 1), jetstream.WithGetMsgSubject(filter))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, unavailable(err, "read "+stream)
	}
	return &Stored{Subject: m.Subject, Sequence: m.Sequence, Header: m.Header, Data: m.Data, Time: m.Time}, nil
}

// Remove takes a message out of a stream; one that is gone is success.
func (c *Conn) Remove(ctx context.Context, stream string, sequence uint64) error {
	s, err := c.stream(ctx, stream)
	if err != nil {
		return err
	}
	short, cancel := bounded(ctx, requestTimeout)
	defer cancel()
	err = s.DeleteMsg(short, sequence)
	if err == nil {
		return nil
	}
	if m, readErr := c.Message(ctx, stream, sequence); readErr == nil && m == nil {
		return nil // the server has no code of its own for one that is gone
	}
	return unavailable(err, "remove from "+stream)
}

// sweepers is the group of those who hear of used-up deliveries: one of them does.
const sweepers = "crumbmesh-sweepers"

// OnDead calls f with the subject of each dead letter as it is kept: in one of those
// who listen.
func (c *Conn) OnDead(ctx context.Context, f func(subject string)) (stop func(), err error) {
	return c.listen(ctx, crumbs.DeadFilter("", ""), func(m *nats.Msg) { f(m.Subject) })
}

// OnUsedUp calls f when the server says that a message of a stream was delivered as
// often as its consumer does. The server says so once, and only to who listens.
func (c *Conn) OnUsedUp(ctx context.Context, stream string, f func(sequence uint64, deliveries int)) (stop func(), err error) {
	return c.listen(ctx, "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES."+stream+".*", func(m *nats.Msg) {
		var a struct {
			Sequence   uint64 `json:"stream_seq"`
			Deliveries int    `json:"deliveries"`
		}
		if err := json.Unmarshal(m.Data, &a); err != nil || a.Sequence == 0 {
			c.Log.Debug("advisory", "subject", m.Subject, "error", err)
			return
		}
		f(a.Sequence, a.Deliveries)
	})
}

// listen subscribes as one of the sweepers, and returns once the server knows.
func (c *Conn) listen(ctx context.Context, subject string, f nats.MsgHandler) (stop func(), err error) {
	sub, err := c.NATS.QueueSubscribe(subject, sweepers, f)
	if err == nil {
		flush, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		err = c.NATS.FlushWithContext(flush)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot listen on %s", subject)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}
