package mesh

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Pull timing: short pulls survive a leader change in a second where the client's
// defaults stall for thirty.
const (
	pullExpiry    = 2 * time.Second
	pullHeartbeat = 500 * time.Millisecond
	pullSilence   = 2 * pullHeartbeat // without a word from the server the pull is lost
	pullFlush     = time.Second       // for the server to confirm that a pull is over
	pullRemarks   = 16                // room for what the server says beside messages
)

// pull is one request for messages and the inbox they come to. It is not the
// client's Fetch because that drops what is on its way when it ends early: such a
// message would wait for AckWait.
type pull struct {
	nats *nats.Conn
	sub  *nats.Subscription
	msgs chan *nats.Msg
}

// pullRequest is the body of a pull, as the server has it; times in nanoseconds.
type pullRequest struct {
	Expires   time.Duration `json:"expires"`
	Batch     int           `json:"batch"`
	Heartbeat time.Duration `json:"idle_heartbeat"`
}

// request asks for up to n messages of a consumer.
func (c *Conn) request(stream, consumer string, n int) (*pull, error) {
	body, err := json.Marshal(pullRequest{pullExpiry, n, pullHeartbeat})
	if err != nil {
		return nil, fault.From(err)
	}
	p := &pull{nats: c.NATS, msgs: make(chan *nats.Msg, n+pullRemarks)}
	inbox := c.NATS.NewInbox()
	if p.sub, err = c.NATS.ChanSubscribe(inbox, p.msgs); err != nil {
		return nil, unavailable(err, "consumer "+consumer)
	}
	prefix := cmp.Or(c.JS.Options().APIPrefix, jetstream.DefaultAPIPrefix)
	subject := strings.TrimSuffix(prefix, ".") + ".CONSUMER.MSG.NEXT." + stream + "." + consumer
	if err := c.NATS.PublishRequest(subject, inbox, body); err != nil {
		p.end()
		return nil, unavailable(err, "consumer "+consumer)
	}
	return p, nil
}

// end closes the inbox of a pull that the server has ended.
func (p *pull) end() { _ = p.sub.Unsubscribe() }

// recall ends a pull before its time and returns every message that the server had
// sent by then: it gives up its interest, awaits the server's word that it knows,
// and only then closes. It is given pullFlush for that.
func (p *pull) recall() (late []*nats.Msg) {
	ctx, cancel := context.WithTimeout(context.Background(), pullFlush)
	defer cancel()
	if p.sub.Drain() == nil {
		_ = p.nats.FlushWithContext(ctx) // unanswered: what is still on its way comes again after AckWait
	}
	for {
		select {
		case m := <-p.msgs:
			if word, _ := status(m); word == wordMessage {
				late = append(late, m)
			}
		default:
			return late
		}
	}
}

// word is what the server says on the inbox of a pull.
type word int

const (
	wordMessage word = iota
	wordAlive        // the pull stands, there is nothing for it
	wordOver         // the pull has ended
)

// status tells a message from the server's remarks. A pull that ended for another
// reason than its time has an error.
func status(m *nats.Msg) (word, error) {
	code := m.Header.Get("Status")
	if len(m.Data) > 0 || code == "" {
		return wordMessage, nil
	}
	switch code {
	case "100":
		return wordAlive, nil
	case "404", "408":
		return wordOver, nil
	case "503":
		return wordOver, nats.ErrNoResponders
	}
	return wordOver, fault.New(fault.Unavailable, "NATS ended the pull: %s %s", code, m.Header.Get("Description"))
}
