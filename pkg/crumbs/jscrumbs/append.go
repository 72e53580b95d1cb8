// Package jscrumbs stores and reads crumbs on JetStream: the fenced append that
// makes a run's crumbs appear once and in order, and Follow.
package jscrumbs

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// Fence is a run's last stored crumb as far as the writer knows: its number and
// its stream sequence. The zero Fence is a run without crumbs.
type Fence struct {
	Seq    uint64
	Stream uint64
}

// appendTries bounds the read-backs of one crumb; a message that is given back
// after it is tried again as a whole.
const appendTries = 20

// appendBackoff is the pause after a publish whose fate is not known.
const appendBackoff = 50 * time.Millisecond

// Append stores messages[i], the crumb with number first+i, each only on top of
// the crumb with the number before it (P2 of docs/protocol.md). Refused or
// timed out, it reads the run's last crumb through the leader and goes on after
// that. So whoever sends a crumb, however often and late, it is stored once and
// in order. It returns the fence after the last message, or UNAVAILABLE.
func Append(ctx context.Context, c *mesh.Conn, filter string, fence Fence, first uint64, messages []*nats.Msg) (Fence, error) {
	for tries := 0; ; {
		seq := max(fence.Seq+1, first)
		i := seq - first
		if i >= uint64(len(messages)) {
			return fence, nil
		}
		if fence.Seq+1 == seq {
			ack, err := c.Publish(ctx, messages[i], jetstream.WithExpectLastSequenceForSubject(fence.Stream, filter))
			if err == nil {
				fence, tries = Fence{Seq: seq, Stream: ack.Sequence}, 0
				continue
			}
			if fault.CodeOf(err) == fault.PayloadTooLarge {
				return fence, err
			}
			if tries++; tries > appendTries || ctx.Err() != nil {
				return fence, fault.Wrap(fault.Unavailable, err, "crumb %d of %s could not be stored", seq, filter)
			}
			if !errors.Is(err, mesh.ErrConflict) {
				pause(ctx)
			}
		}
		last, err := Last(ctx, c, filter)
		if err != nil {
			return fence, err
		}
		if last.Seq == 0 && seq > 1 {
			last = Fence{Seq: seq - 1} // the earlier crumbs aged out: they were delivered before this decision was made
		}
		if last.Seq+1 < first {
			return fence, fault.New(fault.InternalError, "%s: crumb %d is missing before %d", filter, last.Seq+1, first)
		}
		fence = last
	}
}

// Last reads a run's last crumb through the leader.
func Last(ctx context.Context, c *mesh.Conn, filter string) (Fence, error) {
	m, err := c.Last(ctx, crumbs.StreamCrumbs, filter)
	return fenceOf(m, err)
}

// LastSeen is Last from whichever replica answers: for readers.
func LastSeen(ctx context.Context, c *mesh.Conn, filter string) (Fence, error) {
	m, err := c.LastDirect(ctx, crumbs.StreamCrumbs, filter)
	return fenceOf(m, err)
}

func fenceOf(m *mesh.Stored, err error) (Fence, error) {
	if err != nil || m == nil {
		return Fence{}, err
	}
	seq, err := strconv.ParseUint(m.Header.Get("ce-sequence"), 10, 64)
	if err != nil {
		return Fence{}, fault.New(fault.InternalError, "the crumb at stream sequence %d has no ce-sequence", m.Sequence)
	}
	return Fence{Seq: seq, Stream: m.Sequence}, nil
}

func pause(ctx context.Context) {
	t := time.NewTimer(appendBackoff)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
