package mesh

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

const (
	pullBackoff = 250 * time.Millisecond // after a pull that failed
	loopStalled = 15 * time.Second       // a loop without progress for this long is unhealthy
)

// parkedMax bounds the goroutines that a loop keeps for its next messages.
const parkedMax = 32

// Delivery is one message in the hands of a handler.
type Delivery struct {
	Subject  string
	Header   nats.Header
	Data     []byte
	Stored   time.Time // when the stream stored it
	Sequence uint64    // its stream sequence
	Count    int       // deliveries so far, this one included

	msg held
}

// Handler works on one message; what it returns settles it (see settle). Its
// context ends when the drain grace is over, not when the loop stops.
type Handler func(ctx context.Context, d *Delivery) error

// ConsumeConfig describes one consume loop.
type ConsumeConfig struct {
	Stream, Consumer string
	Capacity         int           // messages held at once
	DoubleAck        bool          // await the server's word where a repeat would cost
	Grace            time.Duration // how long handlers may go on after ctx ends; 0 = until they return
}

// Loop is a running consume loop.
type Loop struct {
	conn     *Conn
	cfg      ConsumeConfig
	handler  Handler
	progress atomic.Int64 // unix nanoseconds of the last answer from the server
	err      atomic.Value // last error text of the loop
	free     chan struct{}
	pulling  atomic.Bool // the places that are not free wait for messages, not for handlers
	held     sync.WaitGroup
	parked   chan *nats.Msg // to a goroutine that waits for its next message
	waiting  atomic.Int32   // such goroutines
	started  time.Time
	panics   panics
	ask      func(ctx context.Context, d *Delivery, cause error) (crumbs.RunID, error)
}

// NewLoop binds to a durable consumer. It fails with TOPOLOGY_MISSING naming the
// command that makes it.
func (c *Conn) NewLoop(ctx context.Context, cfg ConsumeConfig, h Handler) (*Loop, error) {
	if err := c.Verify(ctx, nil, map[string][]string{cfg.Stream: {cfg.Consumer}}); err != nil {
		return nil, err
	}
	l := &Loop{conn: c, cfg: cfg, handler: h, free: make(chan struct{}, cfg.Capacity), parked: make(chan *nats.Msg), started: time.Now()}
	for range cfg.Capacity {
		l.free <- struct{}{}
	}
	l.progress.Store(l.started.UnixNano())
	c.measured.watch(l)
	return l, nil
}

// Run pulls until ctx ends, then waits for the handlers in hand (at most Grace).
func (l *Loop) Run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	for ctx.Err() == nil {
		n := l.take(ctx)
		if n == 0 {
			break
		}
		l.pulling.Store(true)
		got, err := l.pull(ctx, work, n)
		l.pulling.Store(false)
		for range n - got {
			l.free <- struct{}{}
		}
		if err != nil && ctx.Err() == nil {
			l.err.Store(err.Error())
			l.conn.Log.Debug("pull", "consumer", l.cfg.Consumer, "error", err)
			_ = sleep(ctx, pullBackoff) // ends early only with ctx, which the loop checks
		} else {
			l.progress.Store(time.Now().UnixNano())
		}
	}
	l.drain(stop)
	l.conn.measured.forget(l)
	return nil
}

// take waits for one free place and takes all others that are free too.
func (l *Loop) take(ctx context.Context) int {
	select {
	case <-ctx.Done():
		return 0
	case <-l.free:
	}
	n := 1
	for {
		select {
		case <-l.free:
			n++
		default:
			return n
		}
	}
}

// pull takes up to n messages off the queue and lets them be served. It ends when
// the server ends the pull, which is in pullExpiry.
func (l *Loop) pull(ctx, work context.Context, n int) (got int, err error) {
	p, err := l.conn.request(l.cfg.Stream, l.cfg.Consumer, n)
	if err != nil {
		return 0, err
	}
	silence := time.NewTimer(pullSilence)
	defer silence.Stop()
	for got < n {
		select {
		case <-ctx.Done():
			l.held.Add(1)
			go l.giveBack(p)
			return got, nil
		case <-silence.C:
			for _, m := range p.recall() {
				l.hand(work, m)
				got++
			}
			return got, fault.New(fault.Unavailable, "no word of the pull for %s", pullSilence)
		case m := <-p.msgs:
			silence.Reset(pullSilence)
			said, err := status(m)
			if said == wordOver {
				p.end()
				return got, err
			}
			l.progress.Store(time.Now().UnixNano())
			if said == wordMessage {
				l.hand(work, m)
				got++
			}
		}
	}
	p.end()
	return got, nil
}

// hand gives a message to a goroutine that serves it.
func (l *Loop) hand(work context.Context, m *nats.Msg) {
	l.held.Add(1)
	select {
	case l.parked <- m:
	default:
		go l.serve(work, m)
	}
}

// giveBack returns what a pull still brought after the loop was told to stop, at
// once and when it is over, so that none of it comes here again.
func (l *Loop) giveBack(p *pull) {
	defer l.held.Done()
	for _, m := range p.recall() {
		if err := (held{l.conn.NATS, m.Reply}).nak(); err != nil {
			l.conn.Log.Debug("nak", "error", err)
		}
	}
}

func (l *Loop) drain(stop context.CancelFunc) {
	done := make(chan struct{})
	go func() { l.held.Wait(); close(done) }()
	if l.cfg.Grace == 0 {
		<-done
		return
	}
	t := time.NewTimer(l.cfg.Grace)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		stop()
		<-done
	}
}

// serve handles a message and then, until ctx ends, those it is handed while it
// is parked: a fresh goroutine would grow its stack again for each message.
func (l *Loop) serve(ctx context.Context, m *nats.Msg) {
	for {
		l.handle(ctx, m)
		m = nil // a parked goroutine holds no body
		if l.waiting.Add(1) > parkedMax {
			l.waiting.Add(-1)
			return
		}
		select {
		case m = <-l.parked:
			l.waiting.Add(-1)
		case <-ctx.Done():
			return
		}
	}
}

func (l *Loop) handle(ctx context.Context, m *nats.Msg) {
	defer func() { l.free <- struct{}{}; l.held.Done() }()
	meta, err := m.Metadata()
	if err != nil {
		l.conn.Log.Error("message without metadata", "subject", m.Subject, "error", err)
		return
	}
	l.conn.measured.came(ctx, l.cfg, meta.Timestamp, int(meta.NumDelivered))
	d := &Delivery{Subject: m.Subject, Header: m.Header, Data: m.Data, Stored: meta.Timestamp,
		Sequence: meta.Sequence.Stream, Count: int(meta.NumDelivered), msg: held{l.conn.NATS, m.Reply}}
	ctx = about(ctx, d)
	err = l.work(ctx, d)
	if err != nil {
		l.conn.Log.Log(ctx, levelOf(err), "message not done", "error", err)
	}
	if err := l.conn.settle(ctx, l.cfg, d, err); err != nil {
		l.conn.Log.WarnContext(ctx, "settle", "error", err)
	}
}

// work keeps the message while its handler runs, however that ends.
func (l *Loop) work(ctx context.Context, d *Delivery) error {
	quiet := l.keep(ctx, d)
	defer quiet()
	return l.guard(ctx, d)
}

// guard is the message boundary: a panic of the handler becomes a transient
// error, so that one message cannot end the process; one that panics again and again
// is given up.
func (l *Loop) guard(ctx context.Context, d *Delivery) (err error) {
	defer func() {
		if r := recover(); r != nil {
			l.conn.Log.ErrorContext(ctx, "panic", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			err = l.panicked(ctx, d)
		}
	}()
	return l.handler(ctx, d)
}

// keep sends InProgress each third of AckWait until the returned func is called.
func (l *Loop) keep(ctx context.Context, d *Delivery) (quiet func()) {
	return Every(l.conn.Settings.Heartbeat(), func() {
		if err := d.msg.inProgress(); err != nil {
			l.conn.Log.DebugContext(ctx, "heartbeat", "error", err)
		}
	})
}

// Health returns UNAVAILABLE when the loop has had no answer from the server
// for a while: readiness comes from the loop itself, not from a separate ticker.
func (l *Loop) Health() error {
	idle := time.Since(time.Unix(0, l.progress.Load()))
	if idle < loopStalled || len(l.free) == 0 && !l.pulling.Load() {
		return nil
	}
	last, _ := l.err.Load().(string)
	return fault.New(fault.Unavailable, "consumer %s of %s: no answer for %s; last error: %s", l.cfg.Consumer, l.cfg.Stream, idle.Round(time.Second), last)
}
