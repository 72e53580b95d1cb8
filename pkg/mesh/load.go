package mesh

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Load is what a durable consumer of the mesh carries, as the server sees it.
type Load struct {
	Stream   string `json:"stream"`
	Consumer string `json:"consumer"`
	Filter   string `json:"filter,omitempty"`
	// Of its messages: those that wait, those handed out and not settled, those
	// handed out before and waiting again.
	Pending     uint64 `json:"pending"`
	InHand      int    `json:"inHand"`
	Redelivered int    `json:"redelivered"`
	Waiting     int    `json:"waiting"`  // pulls that wait for messages; 0 while nobody pulls
	AckFloor    uint64 `json:"ackFloor"` // every message of the stream up to it is settled
	Delivered   uint64 `json:"delivered"`

	AckWait    time.Duration `json:"ackWait"`
	MaxDeliver int           `json:"maxDeliver"`
	MaxInHand  int           `json:"maxInHand"`
	Replicas   int           `json:"replicas"`
	At         time.Time     `json:"at"` // the server's clock
}

// Oldest is the message of a queue that waits longest for its end.
type Oldest struct {
	Subject  string
	Sequence uint64
	Stored   time.Time // zero: there is none
}

// Load reads one consumer. It fails with TOPOLOGY_MISSING or UNAVAILABLE.
func (c *Conn) Load(ctx context.Context, stream, consumer string) (Load, error) {
	ctx, cancel := bounded(ctx, requestTimeout)
	defer cancel()
	cons, err := c.JS.Consumer(ctx, stream, consumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return Load{}, fault.New(fault.TopologyMissing, "consumer %s of stream %s is missing; %s", consumer, stream, repair(consumer))
	}
	if err != nil {
		return Load{}, unavailable(err, "consumer "+consumer)
	}
	i := cons.CachedInfo()
	return Load{Stream: stream, Consumer: consumer, Filter: i.Config.FilterSubject, Pending: i.NumPending, InHand: i.NumAckPending,
		Redelivered: i.NumRedelivered, Waiting: i.NumWaiting, AckFloor: i.AckFloor.Stream, Delivered: i.Delivered.Stream,
		AckWait: i.Config.AckWait, MaxDeliver: i.Config.MaxDeliver, MaxInHand: i.Config.MaxAckPending, Replicas: max(1, i.Config.Replicas), At: i.TimeStamp}, nil
}

// Loads reads every durable consumer of the mesh that is there.
func (c *Conn) Loads(ctx context.Context) ([]Load, error) {
	var out []Load
	for _, q := range []struct{ stream, consumer string }{
		{crumbs.StreamRequests, ConsumerRequests}, {crumbs.StreamInbox, ConsumerEvents}, {crumbs.StreamTimers, ConsumerTimers},
		{crumbs.StreamCrumbs, ConsumerApprovals}, {crumbs.StreamModelCalls, ""}, {crumbs.StreamToolCalls, ""},
	} {
		names := []string{q.consumer}
		if q.consumer == "" {
			var err error
			if names, err = c.consumerNames(ctx, q.stream); err != nil {
				return nil, err
			}
		}
		for _, name := range names {
			one, err := c.Load(ctx, q.stream, name)
			if fault.CodeOf(err) == fault.TopologyMissing {
				continue
			}
			if err != nil {
				return nil, err
			}
			out = append(out, one)
		}
	}
	return out, nil
}

// consumerNames are those of the consumers of a stream of calls, sorted.
func (c *Conn) consumerNames(ctx context.Context, stream string) ([]string, error) {
	s, err := c.stream(ctx, stream)
	if fault.CodeOf(err) == fault.TopologyMissing {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	names := s.ConsumerNames(ctx)
	for n := range names.Name() {
		out = append(out, n)
	}
	if err := names.Err(); err != nil {
		return nil, unavailable(err, "consumers of "+stream)
	}
	slices.Sort(out)
	return out, nil
}

// Oldest finds the message of a queue that waits longest for its end.
func (c *Conn) Oldest(ctx context.Context, q Load) (Oldest, error) {
	s, err := c.stream(ctx, q.Stream)
	if err != nil {
		return Oldest{}, err
	}
	first := uint64(1) // of a work queue what is stored is not done, also below the ack floor
	if s.CachedInfo().Config.Retention != jetstream.WorkQueuePolicy {
		if q.Pending+uint64(q.InHand) == 0 {
			return Oldest{}, nil
		}
		first = q.AckFloor + 1
	}
	filter := q.Filter
	if filter == "" {
		filter = ">"
	}
	m, err := c.Next(ctx, q.Stream, filter, first)
	if err != nil || m == nil {
		return Oldest{}, err
	}
	return Oldest{Subject: m.Subject, Sequence: m.Sequence, Stored: m.Time}, nil
}

// StreamState is what a stream or bucket holds.
type StreamState struct {
	Name     string
	Messages uint64
	Bytes    uint64
	Limit    int64     // bytes; 0 or less: none
	Refuses  bool      // when it is full, instead of dropping the oldest
	Last     time.Time // its newest message was stored
	Replicas int
}

// roomMin is what a stream must have free to take any command: a body that stays in
// its message, and headers.
const roomMin = InlineMax + 8<<10

// Full reports whether the stream may refuse a command with QUEUE_FULL, as the server
// saw it: how large the command is that it refuses is not known here.
func (s StreamState) Full() bool {
	return s.Refuses && s.Limit > 0 && s.Limit-int64(s.Bytes) < roomMin
}

// StreamState reads a stream. It fails with TOPOLOGY_MISSING or UNAVAILABLE.
func (c *Conn) StreamState(ctx context.Context, name string) (StreamState, error) {
	s, err := c.stream(ctx, name)
	if err != nil {
		return StreamState{}, err
	}
	limited, cancel := bounded(ctx, requestTimeout)
	defer cancel()
	i, err := s.Info(limited)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return StreamState{}, fault.New(fault.TopologyMissing, "stream %s is missing; %s", name, repair(name))
	}
	if err != nil {
		return StreamState{}, unavailable(err, "stream "+name)
	}
	return StreamState{Name: name, Messages: i.State.Msgs, Bytes: i.State.Bytes, Limit: i.Config.MaxBytes, Refuses: i.Config.Discard == jetstream.DiscardNew,
		Last: i.State.LastTime, Replicas: max(1, i.Config.Replicas)}, nil
}

// StreamStates reads the streams of messages, not the buckets. One that is
// missing is left out.
func (c *Conn) StreamStates(ctx context.Context) ([]StreamState, error) {
	var out []StreamState
	for _, name := range []string{crumbs.StreamRequests, crumbs.StreamInbox, crumbs.StreamTimers, crumbs.StreamModelCalls, crumbs.StreamToolCalls,
		crumbs.StreamCrumbs, crumbs.StreamDeltas, crumbs.StreamDead} {
		s, err := c.StreamState(ctx, name)
		if fault.CodeOf(err) == fault.TopologyMissing {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// LastSequence is the sequence of the last message a stream took.
func (c *Conn) LastSequence(ctx context.Context, stream string) (uint64, error) {
	state, err := c.state(ctx, stream)
	return state.LastSeq, err
}

// Count is how many messages a stream holds.
func (c *Conn) Count(ctx context.Context, stream string) (uint64, error) {
	state, err := c.state(ctx, stream)
	return state.Msgs, err
}

func (c *Conn) state(ctx context.Context, stream string) (jetstream.StreamState, error) {
	s, err := c.stream(ctx, stream)
	if err != nil {
		return jetstream.StreamState{}, err
	}
	ctx, cancel := bounded(ctx, requestTimeout)
	defer cancel()
	info, err := s.Info(ctx)
	if err != nil {
		return jetstream.StreamState{}, unavailable(err, "stream "+stream)
	}
	return info.State, nil
}

// Present lists the workers that are present.
func (c *Conn) Present(ctx context.Context) ([]Presence, error) {
	var out []Presence
	err := c.Bucket(crumbs.BucketWorkers).List(ctx, ">", func(r Record) bool {
		var p Presence
		if json.Unmarshal(r.Value, &p) == nil && time.Since(r.Stored) < c.Settings.PresenceTTL {
			p.Stored = r.Stored
			out = append(out, p)
		}
		return true
	})
	return out, err
}

// QueueOf is the service and the queue of a worker that a consumer serves; ok is
// false for the consumers of the services themselves.
func QueueOf(consumer string) (service, queue string, ok bool) {
	if g, found := strings.CutPrefix(consumer, "group_"); found {
		return ServiceTools, g, true
	}
	if p, found := strings.CutPrefix(consumer, "provider_"); found {
		return ServiceModels, p, true
	}
	return "", "", false
}
