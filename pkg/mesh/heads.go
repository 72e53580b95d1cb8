package mesh

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	headsBatch = 10_000          // messages of one pull: headers only, some MiB
	headsWait  = 8 * time.Second // for one of them
	headsTries = 30              // pulls in a row that bring nothing
	headsPause = 100 * time.Millisecond
	headsIdle  = 10 * time.Second // until the server drops a consumer that was left behind
)

// Heads visits the records whose key matches pattern without their values, until
// visit returns false: what a list over many records can afford. Records are those
// there when it began, in the order of their last write; Value is empty, not nil. It
// fails with UNAVAILABLE.
func (b *Bucket) Heads(ctx context.Context, pattern string, visit func(Record) bool) error {
	if b.conn.Restricted() { // who may make no consumer reads the values too
		return b.List(ctx, pattern, func(r Record) bool {
			r.Value = []byte{}
			return visit(r)
		})
	}
	cons, err := b.conn.JS.OrderedConsumer(ctx, b.stream(), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{b.subject(pattern)}, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, HeadersOnly: true,
		InactiveThreshold: headsIdle, MaxResetAttempts: 1,
	})
	if err != nil {
		return unavailable(err, "bucket "+b.name)
	}
	info := cons.CachedInfo()
	defer b.dropHeads(ctx, info.Name)
	for left, tries := info.NumPending, 0; left > 0; tries++ {
		before := left
		if left, err = b.headsOf(ctx, cons, left, visit); err == nil {
			tries = 0
			continue
		}
		// A consumer that was just made, or whose server went, has nobody behind it for a moment.
		if left != before || tries == headsTries || sleep(ctx, headsPause) != nil {
			return unavailable(err, "bucket "+b.name)
		}
	}
	return nil
}

// headsOf visits the next batch and returns how many records are left, 0 when the
// visitor has enough.
func (b *Bucket) headsOf(ctx context.Context, cons jetstream.Consumer, left uint64, visit func(Record) bool) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, headsWait)
	defer cancel() // ends the pull too
	batch, err := cons.Fetch(int(min(left, headsBatch)), jetstream.FetchContext(ctx))
	if err != nil {
		return left, err
	}
	got := 0
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return left, err
		}
		got++
		left = meta.NumPending
		r := b.record(&Stored{Subject: m.Subject(), Header: m.Headers(), Data: []byte{}, Sequence: meta.Sequence.Stream, Time: meta.Timestamp})
		if r.Exists() && !visit(r) {
			return 0, nil
		}
	}
	if got == 0 {
		return left, errors.Join(batch.Error(), ctx.Err(), errors.New("a listing stands still"))
	}
	return left, nil
}

// dropHeads lets the server forget the consumer of a listing at once.
func (b *Bucket) dropHeads(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	if err := b.conn.JS.DeleteConsumer(ctx, b.stream(), name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		b.conn.Log.Debug("consumer left to expire", "bucket", b.name, "error", err)
	}
}

// Head returns a header of a record, "" when it has none of that name.
func (r Record) Head(name string) string {
	for k, v := range r.Header {
		if len(v) > 0 && strings.EqualFold(k, name) {
			return v[0]
		}
	}
	return ""
}
