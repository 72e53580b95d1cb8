package mesh

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// A message whose handling panics comes back; after panicsMax times in one process
// it is given up. The count of deliveries does not tell: a message may have been
// given back often for other reasons.
const (
	panicsMax      = 3
	panicsRemember = 1024 // messages
)

// panics counts them by message. The zero value is ready.
type panics struct {
	mu    sync.Mutex
	count map[uint64]int
}

func (p *panics) add(sequence uint64) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count == nil || len(p.count) >= panicsRemember {
		p.count = map[uint64]int{}
	}
	p.count[sequence]++
	return p.count[sequence]
}

// BeforeGivingUp sets what is asked before a message is given up whose handling
// panicked panicsMax times: it tells the message's run and names it. With an error
// the message comes back. Call it before Run.
func (l *Loop) BeforeGivingUp(ask func(ctx context.Context, d *Delivery, cause error) (crumbs.RunID, error)) {
	l.ask = ask
}

// panicked says what becomes of a message whose handling panicked.
func (l *Loop) panicked(ctx context.Context, d *Delivery) error {
	n := l.panics.add(d.Sequence)
	if n < panicsMax {
		return fault.New(fault.InternalError, "the handler of %s panicked", d.Subject)
	}
	cause := fault.New(fault.InternalError, "the handler of %s panicked %d times; the service's log has the stacks", d.Subject, n)
	run := crumbs.RunOf(d.Subject)
	if l.ask != nil {
		named, err := l.giveUp(ctx, d, cause)
		if err != nil {
			return err
		}
		run = named
	}
	return Dead(run, cause)
}

// giveUp asks the service to tell the run. A panic there ends it: the message is
// given up all the same.
func (l *Loop) giveUp(ctx context.Context, d *Delivery, cause error) (run crumbs.RunID, err error) {
	defer func() {
		if r := recover(); r != nil {
			l.conn.Log.ErrorContext(ctx, "panic", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			run, err = crumbs.RunOf(d.Subject), nil
		}
	}()
	return l.ask(ctx, d, cause)
}
