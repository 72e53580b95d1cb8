// Package raw reads streams as they are, past every reader of the product.
package raw

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/test/chaos/internal/check"
)

const (
	batch      = 500
	fetchWait  = time.Second
	inactive   = 30 * time.Second // after which the server drops a reader's consumer
	askMax     = 4 * time.Second
	retryPause = 200 * time.Millisecond
	pingEvery  = 2 * time.Second
	reconnect  = 100 * time.Millisecond
)

// Connect connects as an operator would: it goes on for ever, and notices within
// seconds that a server is gone.
func Connect(servers, name string) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect(servers, nats.Name(name), nats.MaxReconnects(-1), nats.ReconnectWait(reconnect), nats.ReconnectBufSize(-1),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(1), nats.RetryOnFailedConnect(true))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(askMax))
	return nc, js, err
}

// Follow hands every message of a stream to take, in order and each once, until
// ctx ends, whatever happens to servers and consumers meanwhile.
func Follow(ctx context.Context, js jetstream.JetStream, stream string, take func(check.Message)) {
	last := uint64(0)
	for ctx.Err() == nil {
		if err := follow(ctx, js, stream, &last, take); err != nil {
			pause(ctx)
		}
	}
}

// follow reads from one consumer until it fails.
func follow(ctx context.Context, js jetstream.JetStream, stream string, last *uint64, take func(check.Message)) error {
	c, err := consumer(ctx, js, stream, *last)
	if err != nil {
		return err
	}
	const quietMax = 5 // empty fetches before the consumer is doubted
	for quiet := 0; ctx.Err() == nil && quiet < quietMax; quiet++ {
		n, err := fetch(c, last, take)
		if err != nil {
			return err
		}
		if n > 0 {
			quiet = 0
		}
	}
	return nil
}

func consumer(ctx context.Context, js jetstream.JetStream, stream string, last uint64) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	return js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: last + 1,
		InactiveThreshold: inactive, MemoryStorage: true, Replicas: 1,
	})
}

func fetch(c jetstream.Consumer, last *uint64, take func(check.Message)) (n int, err error) {
	got, err := c.Fetch(batch, jetstream.FetchMaxWait(fetchWait))
	if err != nil {
		return 0, err
	}
	for m := range got.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return n, err
		}
		if meta.Sequence.Stream <= *last {
			continue
		}
		*last = meta.Sequence.Stream
		take(check.Message{Sequence: meta.Sequence.Stream, Subject: m.Subject(), Stored: meta.Timestamp, Header: m.Headers(), Body: m.Data()})
		n++
	}
	if err := got.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
		return n, err
	}
	return n, nil
}

// All returns what a stream holds now. It tries again until ctx ends.
func All(ctx context.Context, js jetstream.JetStream, stream string) (all []check.Message, err error) {
	for {
		if all, err = read(ctx, js, stream); err == nil || ctx.Err() != nil {
			return all, err
		}
		pause(ctx)
	}
}

func read(ctx context.Context, js jetstream.JetStream, stream string) ([]check.Message, error) {
	state, err := State(ctx, js, stream)
	if err != nil || state.Msgs == 0 {
		return nil, err
	}
	c, err := consumer(ctx, js, stream, 0)
	if err != nil {
		return nil, err
	}
	var all []check.Message
	for last := uint64(0); last < state.LastSeq; {
		n, err := fetch(c, &last, func(m check.Message) { all = append(all, m) })
		if err != nil {
			return nil, err
		}
		if n == 0 && uint64(len(all)) >= state.Msgs {
			break
		}
		if n == 0 {
			return nil, fmt.Errorf("%s: read %d of %d messages", stream, len(all), state.Msgs)
		}
	}
	return all, nil
}

// State is what a stream's leader says of it.
func State(ctx context.Context, js jetstream.JetStream, stream string) (jetstream.StreamState, error) {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return jetstream.StreamState{}, fmt.Errorf("%s: %w", stream, err)
	}
	return s.CachedInfo().State, nil
}

// Leader is the server that leads a stream, "" when none does.
func Leader(ctx context.Context, js jetstream.JetStream, stream string) string {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if err != nil || s.CachedInfo().Cluster == nil {
		return ""
	}
	return s.CachedInfo().Cluster.Leader
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(retryPause):
	}
}
