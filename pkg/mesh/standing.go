package mesh

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// standingEvery is how often a service looks whether what it works on is there: a
// stream or a consumer that was deleted under it shows in no message it gets.
const standingEvery = 15 * time.Second

// Standing looks after the streams and consumers that a service needs.
type Standing struct {
	conn      *Conn
	needs     []Need
	consumers map[string][]string
	missing   atomic.Pointer[fault.Error]
}

// Standing returns one for what Verify was asked about.
func (c *Conn) Standing(needs []Need, consumers map[string][]string) *Standing {
	return &Standing{conn: c, needs: needs, consumers: consumers}
}

// Run looks until ctx ends.
func (s *Standing) Run(ctx context.Context) {
	t := time.NewTicker(standingEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.look(ctx)
		}
	}
}

// look notes what is missing. That NATS does not answer says nothing of it: the
// connection and the loops tell.
func (s *Standing) look(ctx context.Context) {
	var missing, repairs []string
	note := func(what, how string) {
		missing = append(missing, what)
		if len(repairs) == 0 || repairs[len(repairs)-1] != how {
			repairs = append(repairs, how)
		}
	}
	for _, n := range s.needs {
		there, err := s.conn.there(ctx, n)
		switch {
		case err != nil:
			return
		case !there && s.conn.Restricted() && !n.Leader: // nobody answers; a role like this learns no more
			note("stream "+n.Stream+" (or every server that has it)", repairAll)
		case !there:
			note("stream "+n.Stream, repairAll)
		}
	}
	for _, stream := range sortedKeys(s.consumers) {
		for _, name := range s.consumers[stream] {
			ctx, cancel := context.WithTimeout(ctx, requestTimeout)
			_, err := s.conn.JS.Consumer(ctx, stream, name)
			cancel()
			switch {
			case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
				note("consumer "+name+" of stream "+stream, repair(name))
			case err != nil:
				return
			}
		}
	}
	if len(missing) == 0 {
		s.missing.Store(nil)
		return
	}
	s.missing.Store(fault.New(fault.TopologyMissing, "%s: missing; %s", strings.Join(missing, ", "), strings.Join(repairs, "; ")))
}

// Health returns TOPOLOGY_MISSING with all that is missing and the command that
// makes it, once a look found it missing.
func (s *Standing) Health() error {
	if f := s.missing.Load(); f != nil {
		return f
	}
	return nil
}
