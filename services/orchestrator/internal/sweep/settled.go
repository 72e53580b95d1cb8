package sweep

import (
	"context"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// forgetMax bounds the messages of one run in one queue that Forget looks at.
const forgetMax = 64

// Forget takes the message of an attempt out of its queue when its run was told to
// wait for it no more: a worker would only drop it, and without a worker it would
// look like work. What it leaves, a sweep takes.
func Forget(ctx context.Context, conn *mesh.Conn, stream, subject string, call crumbs.CallID, attempt int) error {
	from := uint64(1)
	for range forgetMax {
		m, err := conn.Next(ctx, stream, subject, from)
		if err != nil || m == nil {
			return err
		}
		from = m.Sequence + 1
		if of, nth := callOf(m); of == call && nth == attempt {
			return conn.Remove(ctx, stream, m.Sequence)
		}
	}
	return nil
}

// settled removes from a queue that lives what its run waits for no more: calls that
// were answered, redriven or cancelled, or whose run has ended. It looks at
// perQueueMax messages, and the next pass goes on after them.
func (s *Sweeper) settled(ctx context.Context, stream string, q mesh.Queue) error {
	if q.Floor == mesh.Everything {
		return nil
	}
	at := queue{stream, q.Filter}
	from := max(s.further[at], q.Floor+1)
	delete(s.further, at)
	for range perQueueMax {
		m, err := s.conn.Next(ctx, stream, q.Filter, from)
		if err != nil || m == nil {
			return err // the next pass begins at the floor again
		}
		from = m.Sequence + 1
		call, attempt := callOf(m)
		if call == "" || call.Run() != crumbs.RunID(crumbs.Token(m.Subject, 3)) || time.Since(m.Time) < confirmAfter {
			continue
		}
		st, err := s.stands(ctx, callOn{subject: m.Subject, trusted: true, call: call, attempt: attempt})
		if err != nil {
			return err
		}
		if st.held || st.waits {
			continue
		}
		if err := s.conn.Remove(ctx, stream, m.Sequence); err != nil {
			return err
		}
	}
	s.further[at] = from
	return nil
}
