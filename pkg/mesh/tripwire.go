package mesh

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// A tripwire is a subject of another account that nobody there has a reason to
// publish to, exported to the core account as `tripwire.<account>.<subject>`: what
// arrives is an answer that somebody had NATS send there by a forged reply subject.
// It reached nobody, and no permission can see it.
const (
	tripwire = "tripwire."
	// TripwireSubjects are those of all tripwires.
	TripwireSubjects = tripwire + ">"
)

// Tripwire is where what account sends to subject is heard.
func Tripwire(account, subject string) string { return tripwire + account + "." + subject }

// OnTripwire calls f for what runs into a tripwire. It fails with UNAVAILABLE.
func (c *Conn) OnTripwire(ctx context.Context, f func(account, subject string)) (stop func(), err error) {
	sub, err := c.NATS.Subscribe(TripwireSubjects, func(m *nats.Msg) {
		account, subject, _ := strings.Cut(strings.TrimPrefix(m.Subject, tripwire), ".")
		f(account, subject)
	})
	if err == nil {
		flush, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		err = c.NATS.FlushWithContext(flush)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot listen to %s", TripwireSubjects)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}
