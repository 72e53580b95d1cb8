package mesh

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Delays of messages that are given back.
const (
	nakMin = 100 * time.Millisecond
	nakMax = 10 * time.Second
)

type retryError struct {
	after time.Duration
	err   error
}

func (e *retryError) Error() string { return "again in " + e.after.String() + ": " + e.err.Error() }
func (e *retryError) Unwrap() error { return e.err }

// Retry gives a message back for after; the reason is logged.
func Retry(after time.Duration, reason error) error { return &retryError{after, reason} }

type deadError struct {
	run crumbs.RunID
	err error
}

func (e *deadError) Error() string { return "dead: " + e.err.Error() }
func (e *deadError) Unwrap() error { return e.err }

// Dead gives a message up: it is copied to `dead.` with the reason and removed.
func Dead(run crumbs.RunID, reason error) error { return &deadError{run, reason} }

// settle is the one place that decides what becomes of a message: nil is
// acknowledged (twice where a repeat costs), Retry and transient faults come
// back later, at once with SHUTTING_DOWN or when the loop's grace is over, Dead
// goes to the dead letters.
func (c *Conn) settle(ctx context.Context, cfg ConsumeConfig, d *Delivery, err error) error {
	var retry *retryError
	var dead *deadError
	went := func(outcome string) { c.measured.settled(ctx, cfg, outcome) }
	switch {
	case err == nil && cfg.DoubleAck:
		ctx, cancel := lastWord(ctx)
		defer cancel()
		went(outcomeDone)
		return d.msg.doubleAck(ctx)
	case err == nil:
		went(outcomeDone)
		return d.msg.ack()
	case errors.As(err, &retry):
		went(outcomeRetry)
		return d.msg.nakWithDelay(retry.after)
	case errors.As(err, &dead):
		ctx, cancel := lastWord(ctx)
		defer cancel()
		if _, err := c.DeadLetter(ctx, cfg.Stream, dead.run, d, dead.err); err != nil {
			went(outcomeRetry)
			return d.msg.nakWithDelay(backoff(d.Count))
		}
		went(outcomeDead)
		return d.msg.term(string(fault.From(dead.err).Code))
	case fault.CodeOf(err) == fault.ShuttingDown, ctx.Err() != nil: // a fault of the drain is none of the message
		went(outcomeReturned)
		return d.msg.nak()
	default:
		went(outcomeRetry)
		return d.msg.nakWithDelay(backoff(d.Count))
	}
}

// lastWord lets a message be settled after its handler was told to stop.
func lastWord(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
}

// backoff doubles from nakMin to nakMax with the number of deliveries.
func backoff(count int) time.Duration {
	d := nakMin
	for range count - 1 {
		if d *= 2; d >= nakMax {
			return nakMax
		}
	}
	return d
}

// jetstreamHeader reports headers that belong to one publish, not to the message.
func jetstreamHeader(name string) bool { return strings.HasPrefix(strings.ToLower(name), "nats-") }

// headerText keeps a text on one header line.
func headerText(s string) string {
	const textMax = 1024
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if len(s) > textMax {
		s = s[:textMax]
	}
	return s
}

// levelOf says how loud a message that is not done is: coming back later is
// ordinary, giving up is not.
func levelOf(err error) slog.Level {
	var dead *deadError
	if errors.As(err, &dead) {
		return slog.LevelError
	}
	var retry *retryError
	if errors.As(err, &retry) {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}
