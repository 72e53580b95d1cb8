package mesh

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// ServerVersionMin is the oldest nats-server that does all that the mesh needs.
const ServerVersionMin = "2.14.6"

// Server is the NATS server of a connection, and what its account may store.
type Server struct {
	URL       string
	Version   string
	Cluster   string // "" when it is alone
	RTT       time.Duration
	JetStream bool
	Stored    uint64 // bytes in files, of the account
	StoredMax int64  // 0 or less: no limit
	Ahead     time.Duration
	ClockRead bool // Ahead is known: how far the server's clock is ahead of this process's
}

// Server asks the server for itself. It fails with UNAVAILABLE when it does not
// answer; that JetStream is off, or refused to this account, is no failure.
func (c *Conn) Server(ctx context.Context) (Server, error) {
	s := Server{URL: c.NATS.ConnectedUrlRedacted(), Version: c.NATS.ConnectedServerVersion(), Cluster: c.NATS.ConnectedClusterName()}
	rtt, err := c.NATS.RTT()
	if err != nil {
		return s, unavailable(err, s.URL)
	}
	s.RTT = rtt
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	account, err := c.JS.AccountInfo(ctx)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return s, nil
	case err != nil:
		return s, unavailable(err, "JetStream's account")
	}
	s.JetStream, s.Stored, s.StoredMax = true, account.Store, account.Limits.MaxStore
	began := time.Now()
	stream, err := c.JS.Stream(ctx, crumbs.StreamInbox)
	if err == nil {
		if at := stream.CachedInfo().TimeStamp; !at.IsZero() {
			s.Ahead, s.ClockRead = at.Sub(began.Add(time.Since(began)/2)), true
		}
	}
	return s, nil
}

// LastSequences are those of the last messages of the streams that have consumers;
// one that is missing is left out.
func (c *Conn) LastSequences(ctx context.Context) (map[string]uint64, error) {
	out := map[string]uint64{}
	for _, name := range []string{crumbs.StreamRequests, crumbs.StreamInbox, crumbs.StreamTimers, crumbs.StreamModelCalls, crumbs.StreamToolCalls, crumbs.StreamCrumbs} {
		last, err := c.LastSequence(ctx, name)
		if fault.CodeOf(err) == fault.TopologyMissing {
			continue
		}
		if err != nil {
			return nil, err
		}
		out[name] = last
	}
	return out, nil
}
