package mesh

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// ErrConflict says that a compare-and-set or a fenced publish lost: the subject
// moved on. Read again and decide again.
var ErrConflict = errors.New("conflict: the subject was written by another")

// JetStream error codes that mean more than their text (P2 of docs/protocol.md).
const (
	codeWrongLast    = jetstream.JSErrCodeStreamWrongLastSequence // 10071: a stored message says so
	codeLastInFlight = jetstream.ErrorCode(10164)                 // a write to the subject is in flight; it may be lost with its leader
	codeFull         = jetstream.ErrorCode(10077)
	codeIDInFlight   = jetstream.ErrorCode(10158) // the same, for an id of a message
	codeNoMessage    = jetstream.JSErrCodeMessageNotFound
	codeNoStream     = jetstream.JSErrCodeStreamNotFound
)

// Publishing bounds.
const (
	PayloadMax      = 900 << 10 // bytes of body and headers together, under NATS's 1 MiB
	onceRetryMin    = 100 * time.Millisecond
	onceRetryMax    = 2 * time.Second
	inFlightMin     = 2 * time.Millisecond // what is in flight is mostly stored by then
	inFlightMax     = 50 * time.Millisecond
	inFlightRetries = 40 // two seconds

	QueueFullRetry = time.Second // the retryAfterMs of QUEUE_FULL
)

// Publish stores one message and awaits its ack; NATS client retries are off.
// It fails with ErrConflict (an expectation does not hold, by a message that is
// stored), QUEUE_FULL (a work queue refuses), PAYLOAD_TOO_LARGE, or UNAVAILABLE,
// after which the message may or may not be stored.
func (c *Conn) Publish(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if n := size(msg); n > PayloadMax {
		return nil, fault.New(fault.PayloadTooLarge, "%s: %d bytes > limit %d", msg.Subject, n, PayloadMax)
	}
	opts = append(opts, jetstream.WithRetryAttempts(0))
	for try := 0; ; try++ {
		ack, err := c.publish(ctx, msg, opts)
		if !inFlight(err) || try == inFlightRetries {
			return ack, mapPublish(msg.Subject, err)
		}
		if err := sleep(ctx, min(inFlightMin<<min(try, inFlightRetries/2), inFlightMax)); err != nil {
			return nil, err
		}
	}
}

// inFlight reports a refusal that says nothing yet: on a replicated stream another
// write to the subject, or with the id, is under way, perhaps our own that got no
// answer. A leader that is cut off keeps such a write for seconds and never
// stores it.
func inFlight(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == codeIDInFlight || api.ErrorCode == codeLastInFlight)
}

func (c *Conn) publish(ctx context.Context, msg *nats.Msg, opts []jetstream.PublishOpt) (*jetstream.PubAck, error) {
	ctx, cancel := bounded(ctx, requestTimeout)
	defer cancel()
	return c.JS.PublishMsg(ctx, msg, opts...)
}

func size(msg *nats.Msg) int {
	n := len(msg.Data)
	for k, vs := range msg.Header {
		for _, v := range vs {
			n += len(k) + len(v) + 4
		}
	}
	return n
}

// mapPublish is the one function that knows publish errors.
func mapPublish(subject string, err error) error {
	if err == nil {
		return nil
	}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode {
		case codeWrongLast:
			return ErrConflict
		case codeFull:
			full := fault.Wrap(fault.QueueFull, err, "%s: the stream is full (%s); try again later", subject, api.Description)
			full.RetryAfterMs = QueueFullRetry.Milliseconds()
			return full
		}
		return fault.Wrap(fault.Unavailable, err, "%s: NATS refused the message: %s (code %d)", subject, api.Description, api.ErrorCode)
	}
	if errors.Is(err, nats.ErrMaxPayload) {
		return fault.Wrap(fault.PayloadTooLarge, err, "%s: the body is larger than the server takes", subject)
	}
	return unavailable(err, "publish "+subject)
}

// PublishOnce stores the only message of its subject: of a result or decision at
// most one waits. Another one being there already is success. It repeats until
// one is stored or ctx ends.
func (c *Conn) PublishOnce(ctx context.Context, msg *nats.Msg) error {
	for delay := onceRetryMin; ; delay = min(2*delay, onceRetryMax) {
		_, err := c.Publish(ctx, msg, jetstream.WithExpectLastSequencePerSubject(0))
		if err == nil || errors.Is(err, ErrConflict) {
			return nil
		}
		if code := fault.CodeOf(err); code == fault.PayloadTooLarge {
			return err
		}
		c.Log.WarnContext(ctx, "publish refused, repeating", "subject", msg.Subject, "error", err)
		if err := sleep(ctx, delay); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return fault.Wrap(fault.ShuttingDown, ctx.Err(), "stopped while waiting")
	case <-t.C:
		return nil
	}
}
