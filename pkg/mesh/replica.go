package mesh

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// pingHeader asks whichever replica takes a request for itself instead of for an
// answer: it works over every import that the endpoint works over.
const pingHeader = "Crumb-Ping"

// Replica is what a process says of itself.
type Replica struct {
	Service    string       `json:"service"`  // the name of its connection
	Instance   string       `json:"instance"` // another one for each start
	Version    string       `json:"version"`
	At         crumbs.Time  `json:"at"` // its clock
	Violations int64        `json:"violations,omitempty"`
	Problem    *fault.Error `json:"problem,omitempty"` // why it does not serve
}

// Report lets check say, to whoever pings this process, why it does not serve.
func (c *Conn) Report(check func() error) { c.check.Store(&check) }

// self is this process.
func (c *Conn) self() Replica {
	r := Replica{Service: c.NATS.Opts.Name, Instance: c.instance, Version: Version, At: crumbs.At(time.Now()), Violations: c.Violations()}
	check := c.Health
	if told := c.check.Load(); told != nil {
		check = *told
	}
	if err := check(); err != nil {
		r.Problem = fault.From(err)
		if fault.CodeOf(err) == "" {
			r.Problem = fault.New(fault.Unavailable, "%s", err)
		}
	}
	return r
}

// Ping asks one of the processes that serve an endpoint for itself, and tells its
// clock from that of this process: ahead is positive when it is ahead. It fails with
// UNAVAILABLE when nobody serves the endpoint.
func (c *Conn) Ping(ctx context.Context, subject string) (r Replica, ahead time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	began := time.Now()
	reply, err := c.NATS.RequestMsgWithContext(ctx, &nats.Msg{Subject: subject, Header: nats.Header{pingHeader: {"1"}}})
	took := time.Since(began)
	if errors.Is(err, nats.ErrNoResponders) {
		return r, 0, fault.Wrap(fault.Unavailable, err, "nobody serves %s", subject)
	}
	if err != nil {
		return r, 0, unavailable(err, subject)
	}
	if err := json.Unmarshal(reply.Data, &r); err != nil || r.Instance == "" {
		return r, 0, fault.New(fault.Unavailable, "%s is served by a release that does not say who it is", subject)
	}
	return r, r.At.Sub(began.Add(took / 2)), nil
}

// pinged answers a ping.
func (c *Conn) pinged(reply string) {
	body, err := json.Marshal(c.self())
	if err == nil {
		err = c.NATS.PublishMsg(&nats.Msg{Subject: reply, Data: body})
	}
	if err != nil {
		c.Log.Warn("ping", "error", err)
	}
}
