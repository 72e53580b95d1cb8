package mesh

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// held is a message that this process has to settle: what it says goes to the
// message's reply subject.
type held struct {
	nats  *nats.Conn
	reply string
}

func (h held) say(word string) error { return h.nats.Publish(h.reply, []byte(word)) }

func (h held) ack() error        { return h.say("+ACK") }
func (h held) nak() error        { return h.say("-NAK") }
func (h held) inProgress() error { return h.say("+WPI") }

// doubleAck awaits the server's confirmation.
func (h held) doubleAck(ctx context.Context) error {
	_, err := h.nats.RequestWithContext(ctx, h.reply, []byte("+ACK"))
	return err
}

func (h held) nakWithDelay(d time.Duration) error {
	return h.say(fmt.Sprintf(`-NAK {"delay": %d}`, d.Nanoseconds()))
}

// term removes the message; the server tells the reason in an advisory.
func (h held) term(reason string) error { return h.say("+TERM " + reason) }
