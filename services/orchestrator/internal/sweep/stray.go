package sweep

import (
	"context"
	"fmt"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// astray moves what stands for longer than queueGrace where no consumer takes it and
// nobody names a queue: perQueueMax messages of a stream at most.
func (s *Sweeper) astray(ctx context.Context, stream string, queues []mesh.Queue) error {
	places, err := s.places(ctx, stream, queues)
	if err != nil {
		return err
	}
	left := perQueueMax
	for _, place := range places {
		for from := uint64(1); left > 0; left-- {
			m, err := s.conn.Next(ctx, stream, place, from)
			if err != nil {
				return err
			}
			if m == nil {
				break
			}
			from = m.Sequence + 1
			if !mesh.IsQueue(place) && m.Subject != place {
				continue // a subject that looks like a pattern
			}
			made, err := s.made(ctx, stream, place)
			if err != nil {
				return err
			}
			if made {
				break
			}
			if err := s.move(ctx, stuck{stream: stream, m: m, why: whyStray(stream, place), stray: true}); err != nil {
				return err
			}
		}
	}
	return nil
}

// places are those of the strays of a stream that have been there for queueGrace. To
// read all subjects is much where many calls wait: so it is done when there are more
// messages than the consumers know of, and now and then.
func (s *Sweeper) places(ctx context.Context, stream string, queues []mesh.Queue) (due []string, err error) {
	known := uint64(0)
	for _, q := range queues {
		known += q.Holds
	}
	stored, err := s.conn.Count(ctx, stream)
	if err != nil {
		return nil, err
	}
	if stored <= known && s.passes%straysEvery != 0 {
		return nil, nil
	}
	strays, err := s.conn.Strays(ctx, stream, queues, straysMax)
	if err != nil {
		return nil, err
	}
	now, since := time.Now(), map[queue]time.Time{}
	for at, first := range s.strays {
		if at.stream != stream {
			since[at] = first
		}
	}
	for _, stray := range strays {
		at := queue{stream, stray.Filter}
		if _, named := s.absent[at]; named {
			continue // is swept as such
		}
		first, seen := s.strays[at]
		if !seen {
			first = now
		}
		since[at] = first
		if now.Sub(first) >= queueGrace {
			due = append(due, stray.Filter)
		}
	}
	s.strays = since
	return due, nil
}

// made reports whether a queue was made since its consumers were listed: of what it
// takes nothing is to be moved.
func (s *Sweeper) made(ctx context.Context, stream, filter string) (bool, error) {
	switch name := crumbs.Token(filter, 2); {
	case !mesh.IsQueue(filter):
		return false, nil
	case stream == crumbs.StreamModelCalls:
		return s.conn.HasProvider(ctx, name)
	default:
		return s.conn.HasGroup(ctx, name)
	}
}

// whyStray says to an operator why a message was given up, and what would take it.
func whyStray(stream, place string) string {
	kind, form := "group", "tool.call.GROUP.RUN"
	if stream == crumbs.StreamModelCalls {
		kind, form = "provider", "model.call.PROVIDER.RUN"
	}
	if !mesh.IsQueue(place) {
		return fmt.Sprintf("no queue can take the subject %s: expected %s", place, form)
	}
	name := crumbs.Token(place, 2)
	return fmt.Sprintf("%s %q has no queue, and neither the project nor a worker names it: the message was published by mistake, or the %s was removed (`crumb init --%s %s` makes its queue)", kind, name, kind, kind, name)
}
