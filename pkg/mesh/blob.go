package mesh

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// InlineMax is the largest body that travels in a message; a larger one is an
// object of `blobs` and the message carries its base fields and `dataref`.
const InlineMax = 256 << 10

// BlobMax bounds one object.
const BlobMax = 64 << 20

// pieceMax is how much of a blob one message carries.
const pieceMax = 512 << 10

// blobTimeout bounds the transfer of one object.
const blobTimeout = 30 * time.Second

// headerBlobBytes says on each piece how large the whole is.
const headerBlobBytes = "crumb-blob-bytes"

// BlobName names an object of a run by its content.
func BlobName(run crumbs.RunID, data []byte) string {
	if run == "" {
		run = crumbs.NoRun
	}
	return string(run) + "/" + digest(data)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// splitBlobName returns the run and the digest of a name. It returns
// INVALID_MESSAGE for a text that is no name: it came with a message.
func splitBlobName(name string) (crumbs.RunID, string, error) {
	run, sum, _ := strings.Cut(name, "/")
	raw, err := hex.DecodeString(sum)
	if crumbs.CheckRunID("run", run) != nil || err != nil || len(raw) != sha256.Size || sum != strings.ToLower(sum) {
		return "", "", fault.New(fault.InvalidMessage, "blob %.200q: expected `<run>/<sha256 in hex>`", name)
	}
	return crumbs.RunID(run), sum, nil
}

// Blobs is one area of the object store of the runtime: write-once, named by run
// and hash. Each piece of an object is the only message of its subject, and the
// first is written last: an object is there as a whole or not at all. A reader
// computes the hash again, so that nobody's bytes pass for another's.
type Blobs struct {
	conn *Conn
	area crumbs.Area
}

// Blobs returns an area of the blobs; nothing is asked of NATS yet.
func (c *Conn) Blobs(area crumbs.Area) *Blobs { return &Blobs{conn: c, area: area} }

// Put stores data under its content name; a second Put is a no-op. It fails with
// PAYLOAD_TOO_LARGE over BlobMax, QUEUE_FULL or UNAVAILABLE.
func (b *Blobs) Put(ctx context.Context, name string, data []byte) error {
	if len(data) > BlobMax {
		return fault.New(fault.PayloadTooLarge, "blob of %d bytes > limit %d", len(data), BlobMax)
	}
	run, sum, err := splitBlobName(name)
	if err != nil {
		return err
	}
	ctx, cancel := bounded(ctx, blobTimeout)
	defer cancel()
	n := pieces(len(data))
	if n > 1 {
		if first, err := b.conn.LastDirect(ctx, crumbs.StreamBlobs, crumbs.BlobSubject(b.area, run, sum, 0)); err != nil || first != nil {
			return err
		}
	}
	for i := n - 1; i >= 0; i-- {
		msg := &nats.Msg{Subject: crumbs.BlobSubject(b.area, run, sum, i), Data: piece(data, i),
			Header: nats.Header{headerBlobBytes: {strconv.Itoa(len(data))}}}
		_, err := b.conn.Publish(ctx, msg, jetstream.WithExpectLastSequencePerSubject(0))
		if err != nil && !errors.Is(err, ErrConflict) { // a conflict: it is there
			return fmt.Errorf("blob %s: %w", name, err)
		}
	}
	return nil
}

// pieces is how many messages a blob has: an empty one has a message too.
func pieces(bytes int) int { return max(1, (bytes+pieceMax-1)/pieceMax) }

func piece(data []byte, i int) []byte {
	return data[min(i*pieceMax, len(data)):min((i+1)*pieceMax, len(data))]
}

// Get reads an object. It fails with RUN_NOT_FOUND when it is gone, INVALID_MESSAGE
// when name is none or what stands under it is something else, UNAVAILABLE.
func (b *Blobs) Get(ctx context.Context, name string) ([]byte, error) {
	run, sum, err := splitBlobName(name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded(ctx, blobTimeout)
	defer cancel()
	first, err := b.piece(ctx, name, run, sum, 0)
	if err != nil {
		return nil, err
	}
	size, err := strconv.Atoi(first.Header.Get(headerBlobBytes))
	if err != nil || size < 0 || size > BlobMax {
		return nil, fault.New(fault.InvalidMessage, "blob %s: size %q: expected 0 to %d bytes", name, first.Header.Get(headerBlobBytes), BlobMax)
	}
	data := first.Data
	for i := 1; i < pieces(size); i++ {
		next, err := b.piece(ctx, name, run, sum, i)
		if err != nil {
			return nil, err
		}
		data = append(data, next.Data...)
	}
	if len(data) != size || digest(data) != sum {
		return nil, fault.New(fault.InvalidMessage, "blob %s: what is stored under that name is not what it names; discard it", name)
	}
	return data, nil
}

// piece reads one piece. A replica that does not have it yet is asked again; when
// no replica has it, the leader knows, for those who may ask it.
func (b *Blobs) piece(ctx context.Context, name string, run crumbs.RunID, sum string, i int) (*Stored, error) {
	subject := crumbs.BlobSubject(b.area, run, sum, i)
	m, err := b.conn.LastDirect(ctx, crumbs.StreamBlobs, subject)
	if m == nil && err == nil && !b.conn.Restricted() {
		m, err = b.conn.Last(ctx, crumbs.StreamBlobs, subject)
	}
	for try, delay := 1, againMin; m == nil && err == nil && b.conn.Restricted() && try < blobTries; try, delay = try+1, 2*delay {
		if err := sleep(ctx, delay); err != nil {
			return nil, err
		}
		m, err = b.conn.LastDirect(ctx, crumbs.StreamBlobs, subject)
	}
	if err == nil && m == nil {
		return nil, fault.New(fault.RunNotFound, "blob %s is gone: it was kept as long as its run", name)
	}
	return m, err
}

// blobTries is how often a blob that is not there is asked for: over a second.
const blobTries = 7

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
