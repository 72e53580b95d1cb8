package mesh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Bounds of a restore.
const (
	restoreTries   = 8
	restoreChunk   = 64 << 10
	restoreLast    = time.Hour              // the server writes a whole stream before it answers the last chunk
	restoreWait    = 6 * time.Second        // a server gives up a restore that got nothing for 5 s
	unheardWait    = 50 * time.Millisecond  // between two tries of a chunk that nobody took
	unheardTries   = 80                     // 4 s: less than the server's patience
	settlePoll     = 250 * time.Millisecond // between two looks at the replicas
	settleTries    = 240                    // a minute
	emptyTries     = 40                     // 10 s: of a stream that is there and has nothing to wait for
	consumersTries = 60                     // 15 s of those: consumers are assigned after the stream
)

// Answers to a restore.
const (
	codeStreamInUse jetstream.ErrorCode = 10130 // it is there, or its restore was given up
	codeNotNow      jetstream.ErrorCode = 10008
)

// Why a restore is begun again.
var (
	errRepeat = errors.New("the restore did not come to its end")
	errEmpty  = errors.New("an earlier restore left it empty")
	errCutOff = errors.New("it was begun and cut off") // there was no such stream before
)

// Restored is what became of a backup.
type Restored struct {
	Stream    string `json:"stream"`
	Messages  uint64 `json:"messages"`
	Consumers int    `json:"consumers"`
	Replicas  int    `json:"replicas"`
	// There says that the stream was there already, with all that the backup has.
	There bool `json:"there,omitempty"`
}

// Restore makes the stream of a backup, with its consumers, and returns when every
// replica has it. It may be repeated. What a restore that was cut off left, a stream
// that never had a message, is deleted and made again: a server takes such a stream
// for a whole one, and whoever trusts it loses what was in the backup.
//
// It fails with INVALID_CONFIG when the backup cannot be read or a stream of that
// name has messages and ends before the backup does, and with UNAVAILABLE when NATS does
// not answer, does not take it, or a replica stays behind.
func (c *Conn) Restore(ctx context.Context, b Backup) (Restored, error) {
	var last error
	mine := false // what is there of the stream was begun here
	for try := range restoreTries {
		if try > 0 {
			c.Log.Warn("restore again", "stream", b.Stream, "error", last)
			pause := restoreWait
			if errors.Is(last, errEmpty) {
				pause = settlePoll // that restore is long over: others have elected a leader since
			}
			if err := sleep(ctx, pause); err != nil {
				return Restored{}, err
			}
		}
		out, err := c.restore(ctx, b, try > 0, mine)
		if !errors.Is(err, errRepeat) {
			return out, err
		}
		mine = mine || errors.Is(err, errCutOff)
		if last = err; c.Violations() > 0 {
			break // it will be refused again
		}
	}
	return Restored{}, fault.Wrap(fault.Unavailable, last, "stream %s is not restored: %v; repeat the command (`nats stream rm %s` first, if it is known to hold nothing)", b.Stream, last, b.Stream)
}

// restore is one try. It fails with errRepeat when the next one may do better. Again
// says that a try before this one may have left something, mine that whatever is there
// was begun by one: that may have no leader who says that it is empty.
func (c *Conn) restore(ctx context.Context, b Backup, again, mine bool) (Restored, error) {
	info, err := c.info(ctx, b.Stream)
	switch {
	case err != nil && ctx.Err() != nil:
		return Restored{}, ctx.Err()
	case err != nil && mine:
		return Restored{}, c.discard(ctx, b.Stream, errEmpty)
	case err != nil:
		return Restored{}, repeat(err)
	case info == nil:
		if err := c.transfer(ctx, b, mine); err != nil {
			return Restored{}, err
		}
		return c.settled(ctx, b, settleTries)
	case info.State.LastSeq == 0 && (again || b.Last > 0):
		return Restored{}, c.discard(ctx, b.Stream, errEmpty)
	case info.State.LastSeq == 0:
		out, err := c.settled(ctx, b, emptyTries)
		out.There = true
		if fault.CodeOf(err) == fault.Unavailable {
			return Restored{}, c.discard(ctx, b.Stream, errEmpty) // on fewer servers than it should be
		}
		return out, err
	case info.State.LastSeq >= b.Last:
		out, err := c.settled(ctx, b, settleTries)
		out.There = true
		return out, err
	default:
		return Restored{}, fault.New(fault.InvalidConfig, "stream %s is there and ends at %d, the backup at %d: it is another mesh's; restore into servers that are empty", b.Stream, info.State.LastSeq, b.Last)
	}
}

// info reads a stream, nil when there is none.
func (c *Conn) info(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	limited, cancel := c.limited(ctx)
	defer cancel()
	s, err := c.JS.Stream(limited, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, unavailable(err, "stream "+stream)
	}
	return s.CachedInfo(), nil
}

// consumers counts the consumers that a stream is to have. Its leader has those of a
// backup at once; the servers agree on them a moment later, and until then `crumb
// init` would make them again, from the first message on.
func (c *Conn) consumers(ctx context.Context, stream string) (n int, err error) {
	limited, cancel := c.limited(ctx)
	defer cancel()
	s, err := c.JS.Stream(limited, stream)
	if err != nil {
		return 0, unavailable(err, "stream "+stream)
	}
	names := s.ConsumerNames(limited)
	for range names.Name() {
		n++
	}
	if err := names.Err(); err != nil {
		return 0, unavailable(err, "consumers of "+stream)
	}
	return n, nil
}

// discard deletes a stream that never had a message, or is none but in name.
func (c *Conn) discard(ctx context.Context, stream string, why error) error {
	limited, cancel := c.limited(ctx)
	defer cancel()
	if err := c.JS.DeleteStream(limited, stream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return repeat(unavailable(err, "delete what a restore left of stream "+stream))
	}
	return repeat(why)
}

func repeat(why error) error { return fmt.Errorf("%w: %w", errRepeat, why) }

func cutOff(why error) error { return repeat(fmt.Errorf("%w: %w", errCutOff, why)) }

// transfer hands a backup to the server.
func (c *Conn) transfer(ctx context.Context, b Backup, mine bool) error {
	deliver, err := c.begin(ctx, b, mine)
	if err != nil {
		return err
	}
	data, err := os.Open(b.data)
	if err != nil {
		return fault.Wrap(fault.InvalidConfig, err, "%v", err)
	}
	defer func() { _ = data.Close() }() // it was only read
	chunk := make([]byte, min(restoreChunk, c.NATS.MaxPayload()))
	for {
		n, err := data.Read(chunk)
		if n > 0 {
			if err := c.hand(ctx, deliver, chunk[:n], requestTimeout); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return c.hand(ctx, deliver, nil, restoreLast)
		}
		if err != nil {
			return fault.Wrap(fault.InvalidConfig, err, "%s: %v", b.data, err)
		}
	}
}

// apiAnswer is what of an answer of JetStream a restore reads.
type apiAnswer struct {
	Error *struct {
		Code        jetstream.ErrorCode `json:"err_code"`
		Description string              `json:"description"`
	} `json:"error"`
	Deliver string `json:"deliver_subject"`
}

// begin asks for the restore and returns where its chunks go.
func (c *Conn) begin(ctx context.Context, b Backup, mine bool) (string, error) {
	limited, cancel := c.limited(ctx)
	defer cancel()
	reply, err := c.NATS.RequestWithContext(limited, c.api("STREAM.RESTORE."+b.Stream), b.request)
	if err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", cutOff(err) // it may have been heard
	}
	var answer apiAnswer
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return "", repeat(err)
	}
	switch e := answer.Error; {
	case e != nil && e.Code == codeStreamInUse:
		return "", c.discardIfEmpty(ctx, b.Stream, mine)
	case e != nil && (e.Code == codeNoPeers || e.Code == codeNotNow):
		return "", repeat(errors.New(e.Description))
	case e != nil:
		return "", fault.New(fault.Unavailable, "restore of stream %s: NATS refused: %s (code %d)", b.Stream, e.Description, e.Code)
	case answer.Deliver == "":
		return "", repeat(errors.New("NATS does not say where the stream shall go"))
	}
	return answer.Deliver, nil
}

// discardIfEmpty deletes a stream that has a name and nothing else: neither
// messages nor, it may be, a leader.
func (c *Conn) discardIfEmpty(ctx context.Context, stream string, mine bool) error {
	info, err := c.info(ctx, stream)
	if err != nil && !mine {
		return repeat(err)
	}
	if info != nil && info.State.LastSeq > 0 {
		return repeat(errors.New("it has come to be there")) // what it holds is compared then
	}
	return c.discard(ctx, stream, errors.New("an earlier one was given up"))
}

// hand hands over one chunk, or the end. The server that takes it may be known
// to this one only in a moment: its answer goes another way than its interest. So a
// chunk that nobody took is sent again, as if it was not sent.
func (c *Conn) hand(ctx context.Context, deliver string, chunk []byte, limit time.Duration) error {
	reply, err := handed(ctx, func() (*nats.Msg, error) {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return c.NATS.RequestWithContext(limited, deliver, chunk)
	})
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return cutOff(err)
	}
	var answer apiAnswer
	if len(reply.Data) == 0 {
		return nil
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return repeat(err)
	}
	if answer.Error != nil {
		return cutOff(errors.New(answer.Error.Description))
	}
	return nil
}

// handed repeats a request that nobody took, until somebody does.
func handed(ctx context.Context, request func() (*nats.Msg, error)) (*nats.Msg, error) {
	for try := 1; ; try++ {
		reply, err := request()
		if !errors.Is(err, nats.ErrNoResponders) || try == unheardTries {
			return reply, err
		}
		if err := sleep(ctx, unheardWait); err != nil {
			return nil, err
		}
	}
}

// settled waits until a stream has all of its backup, and every replica what the
// leader has.
func (c *Conn) settled(ctx context.Context, b Backup, tries int) (Restored, error) {
	out, why := Restored{Stream: b.Stream}, "nobody leads it"
	for try := range tries {
		if try > 0 {
			if err := sleep(ctx, settlePoll); err != nil {
				return out, err
			}
		}
		info, err := c.info(ctx, b.Stream)
		if fault.CodeOf(err) == fault.Unavailable || err == nil && info == nil {
			continue // it has no leader yet
		}
		if err != nil {
			return out, err
		}
		out.Messages, out.Replicas = info.State.Msgs, max(1, info.Config.Replicas)
		if info.State.LastSeq < b.Last {
			why = "it ends before its backup does"
			continue
		}
		if why = behind(info); why != "" {
			continue
		}
		if out.Consumers, err = c.consumers(ctx, b.Stream); err != nil {
			why = err.Error()
			continue
		}
		if out.Consumers >= b.Consumers || try >= min(consumersTries, tries-1) {
			return out, nil // a reader's own consumer may be in the backup and is not made again
		}
	}
	return out, fault.New(fault.Unavailable, "stream %s is restored, but %s; look at it with `nats stream info %s`", b.Stream, why, b.Stream)
}

// behind says which replicas of a stream do not have what its leader has; "" when
// all do, or it has one.
func behind(info *jetstream.StreamInfo) string {
	if info.Cluster == nil || info.Config.Replicas <= 1 {
		return ""
	}
	if info.Cluster.Leader == "" {
		return "nobody leads it"
	}
	for _, r := range info.Cluster.Replicas {
		switch {
		case r.Offline:
			return "replica " + r.Name + " is offline"
		case !r.Current || r.Lag > 0:
			return "replica " + r.Name + " is behind"
		}
	}
	if len(info.Cluster.Replicas)+1 < info.Config.Replicas {
		return "replicas are missing"
	}
	return ""
}
