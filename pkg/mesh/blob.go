package mesh

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// InlineMax is the largest body that travels in a message; a larger one is an
// object of `blobs` and the message carries its base fields and `dataref`.
const InlineMax = 256 << 10

// BlobMax bounds one object.
const BlobMax = 64 << 20

// blobTimeout bounds the transfer of one object.
const blobTimeout = 30 * time.Second

// BlobName names an object of a run by its content.
func BlobName(run crumbs.RunID, data []byte) string {
	sum := sha256.Sum256(data)
	return string(run) + "/" + hex.EncodeToString(sum[:])
}

// Blobs is the object store of the runtime: write-once, named by run and hash.
type Blobs struct {
	conn *Conn
	mu   sync.Mutex
	os   jetstream.ObjectStore
}

// Blobs returns the object store `blobs`.
func (c *Conn) Blobs() *Blobs { return &Blobs{conn: c} }

func (b *Blobs) store(ctx context.Context) (jetstream.ObjectStore, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.os != nil {
		return b.os, nil
	}
	os, err := b.conn.JS.ObjectStore(ctx, crumbs.ObjectsBlobs)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fault.New(fault.TopologyMissing, "object store %s is missing; %s", crumbs.ObjectsBlobs, repairAll)
	}
	if err != nil {
		return nil, unavailable(err, "object store")
	}
	b.os = os
	return os, nil
}

// Put stores data under its content name; a second Put is a no-op. It fails with
// PAYLOAD_TOO_LARGE over BlobMax.
func (b *Blobs) Put(ctx context.Context, name string, data []byte) error {
	if len(data) > BlobMax {
		return fault.New(fault.PayloadTooLarge, "blob of %d bytes > limit %d", len(data), BlobMax)
	}
	ctx, cancel := bounded(ctx, blobTimeout)
	defer cancel()
	os, err := b.store(ctx)
	if err != nil {
		return err
	}
	if info, err := os.GetInfo(ctx, name); err == nil && info.Size == uint64(len(data)) {
		return nil
	}
	if _, err := os.PutBytes(ctx, name, data); err != nil {
		return unavailable(err, "blob "+name)
	}
	return nil
}

// Get reads an object. It fails with RUN_NOT_FOUND when it is gone.
func (b *Blobs) Get(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := bounded(ctx, blobTimeout)
	defer cancel()
	os, err := b.store(ctx)
	if err != nil {
		return nil, err
	}
	data, err := os.GetBytes(ctx, name)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, fault.New(fault.RunNotFound, "blob %s is gone: it was kept as long as its run", name)
	}
	if err != nil {
		return nil, unavailable(err, "blob "+name)
	}
	return data, nil
}

// CheckIn puts a body aside when it is over InlineMax: what is returned is the
// body itself or, after the whole is stored, the fields of keep and `dataref`.
func (b *Blobs) CheckIn(ctx context.Context, run crumbs.RunID, body json.RawMessage, keep ...string) (json.RawMessage, string, error) {
	if len(body) <= InlineMax {
		return body, "", nil
	}
	name := BlobName(run, body)
	if err := b.Put(ctx, name, body); err != nil {
		return nil, "", err
	}
	short, err := Shorten(body, crumbs.DataRef{Object: name, Bytes: int64(len(body))}, keep...)
	return short, name, err
}

// Shorten returns a body with only the fields of keep and a dataref.
func Shorten(body json.RawMessage, ref crumbs.DataRef, keep ...string) (json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, fault.Wrap(fault.InvalidMessage, err, "a body must be a JSON object")
	}
	short := map[string]any{"dataref": ref}
	for _, k := range keep {
		if v, ok := all[k]; ok {
			short[k] = v
		}
	}
	out, err := json.Marshal(short)
	if err != nil {
		return nil, fault.From(err)
	}
	return out, nil
}

// BaseFields are the fields of a body that stay beside a dataref.
func BaseFields() []string {
	return []string{"type", "runId", "agentId", "sessionId", "seq", "timestamp", "step", "suspended", "callId", "toolCallId",
		"checkpointId", "attempt", "group", "kind", "status", "worker", "delivery", "deltas", "durationMs", "model", "startBefore", "deadlineAt"}
}

// What a body with a dataref has in it: the key, or an escape that may hide it.
var dataRefKey, escaped = []byte("dataref"), []byte(`\u`)

// CheckOut returns the whole body of one that may carry a dataref.
func (b *Blobs) CheckOut(ctx context.Context, body json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(body, dataRefKey) && !bytes.Contains(body, escaped) { // nearly every body: not decoded for this
		return body, nil
	}
	var probe struct {
		DataRef *crumbs.DataRef `json:"dataref"`
	}
	if len(body) > InlineMax {
		return body, nil
	}
	if err := json.Unmarshal(body, &probe); err != nil || probe.DataRef == nil {
		return body, nil //nolint:nilerr // what is no JSON object carries no reference; its reader says what is wrong
	}
	data, err := b.Get(ctx, probe.DataRef.Object)
	if err != nil {
		return nil, err
	}
	if int64(len(data)) != probe.DataRef.Bytes {
		return nil, fault.New(fault.InvalidMessage, "blob %s has %d bytes, its reference says %d", probe.DataRef.Object, len(data), probe.DataRef.Bytes)
	}
	return data, nil
}
