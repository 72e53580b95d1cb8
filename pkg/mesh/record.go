package mesh

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Record is the value of a key and the revision it was read at.
type Record struct {
	Key      string
	Value    []byte // nil: no record
	Revision uint64 // of the value, or of the marker its expiry left; 0 = never written
	Stored   time.Time
	Header   nats.Header
}

// Exists reports whether there is a value.
func (r Record) Exists() bool { return r.Value != nil }

// Bucket is a key-value bucket read through its leader.
type Bucket struct {
	conn *Conn
	name string
}

// Bucket returns a handle; nothing is asked of NATS yet.
func (c *Conn) Bucket(name string) *Bucket { return &Bucket{conn: c, name: name} }

func (b *Bucket) subject(key string) string { return "$KV." + b.name + "." + key }
func (b *Bucket) stream() string            { return "KV_" + b.name }

const (
	kvOperation  = "KV-Operation"
	markerReason = "Nats-Marker-Reason"
)

// GetDirect is Get from whichever replica answers: see Conn.LastDirect.
func (b *Bucket) GetDirect(ctx context.Context, key string) (Record, error) {
	m, err := b.conn.LastDirect(ctx, b.stream(), b.subject(key))
	if err != nil || m == nil {
		return Record{Key: key}, err
	}
	return b.record(m), nil
}

// getAbove is Get directly, of a record that is known to have been written after
// revision.
func (b *Bucket) getAbove(ctx context.Context, key string, revision uint64) (Record, error) {
	m, err := b.conn.lastAbove(ctx, b.stream(), b.subject(key), revision)
	if err != nil {
		return Record{Key: key}, err
	}
	return b.record(m), nil
}

// Get reads a key through the leader. No record is no error.
func (b *Bucket) Get(ctx context.Context, key string) (Record, error) {
	m, err := b.conn.Last(ctx, b.stream(), b.subject(key))
	if err != nil || m == nil {
		return Record{Key: key}, err
	}
	return b.record(m), nil
}

func (b *Bucket) record(m *Stored) Record {
	r := Record{Key: strings.TrimPrefix(m.Subject, b.subject("")), Revision: m.Sequence, Stored: m.Time, Header: m.Header}
	if len(m.Header[kvOperation]) > 0 || len(m.Header[markerReason]) > 0 {
		return r // a marker never counts as a value, whatever its body
	}
	r.Value = m.Data
	if r.Value == nil {
		r.Value = []byte{}
	}
	return r
}

// Write is a value to set on a key whose revision must be the given one (that of
// a Get, 0 for a key never written).
type Write struct {
	Key      string
	Value    []byte
	Revision uint64
	TTL      time.Duration     // 0 = the bucket's
	Header   map[string]string // kept beside the value, readable when the value is not
}

// Set writes by compare-and-set. It returns the new revision, ErrConflict when
// another wrote, or UNAVAILABLE, after which the value may or may not be written.
func (b *Bucket) Set(ctx context.Context, w Write) (uint64, error) {
	msg := &nats.Msg{Subject: b.subject(w.Key), Data: w.Value}
	if w.TTL > 0 || len(w.Header) > 0 {
		msg.Header = nats.Header{}
	}
	if w.TTL > 0 {
		msg.Header[jetstream.MsgTTLHeader] = []string{ttlText(w.TTL)}
	}
	for k, v := range w.Header {
		msg.Header[k] = []string{headerText(v)}
	}
	ack, err := b.conn.Publish(ctx, msg, jetstream.WithExpectLastSequencePerSubject(w.Revision))
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// CompareAndSet is Set without headers.
func (b *Bucket) CompareAndSet(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	return b.Set(ctx, Write{Key: key, Value: value, Revision: revision, TTL: ttl})
}

// Put writes a key whatever is there.
func (b *Bucket) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	ack, err := b.conn.Publish(ctx, &nats.Msg{Subject: b.subject(key), Data: value})
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// Delete removes a key.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	_, err := b.conn.Publish(ctx, &nats.Msg{Subject: b.subject(key), Header: nats.Header{kvOperation: {"DEL"}}})
	return err
}

// List visits the records whose key matches pattern (`>` for all) in the order of
// their last write, until visit returns false. It reads from any replica. The
// caller bounds what it keeps, ctx how long it takes.
func (b *Bucket) List(ctx context.Context, pattern string, visit func(Record) bool) error {
	return b.conn.Visit(ctx, Scan{Stream: b.stream(), Filter: b.subject(pattern)}, func(m *Stored) bool {
		r := b.record(m)
		return !r.Exists() || visit(r)
	})
}

// ttlText renders a Nats-TTL: whole seconds, at least one.
func ttlText(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10) + "s"
}

// TTL returns the publish option of a message that is void after d.
func TTL(d time.Duration) jetstream.PublishOpt {
	return jetstream.WithMsgTTL(max(time.Second, d.Round(time.Second)))
}
