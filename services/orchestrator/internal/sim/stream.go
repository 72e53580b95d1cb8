package sim

import (
	"slices"
	"time"
)

// message is a stored message.
type message struct {
	seq     uint64
	subject string
	id      string
	body    any
	stored  time.Duration
}

// stream is a JetStream stream.
type stream struct {
	w        *world
	name     string
	queue    bool // a work queue: what is acknowledged is gone
	max      int  // messages, 0 without bound
	last     uint64
	messages map[uint64]*message
	tails    map[string]uint64 // fence key → sequence of its last message
	seen     map[string]sighting
	readers  []*consumer
	stored   func(*message)
}

// sighting is an entry of the duplicate window.
type sighting struct {
	at  time.Duration
	seq uint64
}

func (w *world) stream(name string, queue bool, limit int) *stream {
	return &stream{w: w, name: name, queue: queue, max: limit, messages: map[uint64]*message{}, tails: map[string]uint64{}, seen: map[string]sighting{}, stored: func(*message) {}}
}

// publication is what is published, and on what condition.
type publication struct {
	subject string
	id      string // for the duplicate window, "" without
	body    any
	fence   string // fence key, "" without
	expect  uint64 // sequence of the key's last message
	ttl     time.Duration
}

// publish stores a message and returns its sequence. It fails with errConflict
// when the fence is elsewhere and errFull when the stream is full.
func (s *stream) publish(p publication) (uint64, error) {
	if at, ok := s.seen[p.id]; ok && p.id != "" && s.w.now-at.at < duplicateWindow {
		return at.seq, nil
	}
	if p.fence != "" && s.tail(p.fence) != p.expect {
		return 0, errConflict
	}
	if s.max > 0 && len(s.messages) >= s.max {
		s.w.troubles++
		return 0, errFull
	}
	s.last++
	m := &message{seq: s.last, subject: p.subject, id: p.id, body: p.body, stored: s.w.now}
	s.messages[m.seq] = m
	if p.id != "" {
		s.seen[p.id] = sighting{s.w.now, m.seq}
	}
	if p.fence != "" {
		s.tails[p.fence] = m.seq
	}
	if p.ttl > 0 {
		s.w.after(p.ttl, func() { delete(s.messages, m.seq) })
	}
	s.w.logf("  %s %d %s", s.name, m.seq, p.subject)
	s.stored(m)
	for _, c := range s.readers {
		c.offer(m)
	}
	return m.seq, nil
}

// tail is the sequence of the last message of a fence key that is there.
func (s *stream) tail(key string) uint64 {
	if seq := s.tails[key]; s.messages[seq] != nil {
		return seq
	}
	return 0
}

// restart of the server: what is known of ids comes from the messages that are
// still there, so an acknowledged one is forgotten.
func (s *stream) restart() {
	for id, at := range s.seen {
		if s.messages[at.seq] == nil {
			delete(s.seen, id)
		}
	}
}

// consumer is a durable pull consumer.
type consumer struct {
	s       *stream
	takes   func(*message) bool
	ready   []uint64
	pending map[uint64]*pending
	waiting []*task
}

// pending is a message that was delivered and not acknowledged.
type pending struct {
	deliveries int
	epoch      int // of its redelivery timer
}

// delivery is a message in the hands of a task.
type delivery struct {
	c *consumer
	*message
	count int
}

func (s *stream) consumer(takes func(*message) bool) *consumer {
	c := &consumer{s: s, takes: takes, pending: map[uint64]*pending{}}
	s.readers = append(s.readers, c)
	return c
}

func (c *consumer) offer(m *message) {
	if c.takes(m) {
		c.ready = append(c.ready, m.seq)
		c.pump()
	}
}

// next waits for a message.
func (c *consumer) next(t *task) *delivery {
	c.waiting = append(slices.DeleteFunc(c.waiting, func(x *task) bool { return x.done }), t)
	c.s.w.after(0, c.pump)
	d, _ := t.park()
	return d.(*delivery)
}

// pump hands messages to waiting tasks. One that died meanwhile swallows its
// message until AckWait has passed: the server does not know.
func (c *consumer) pump() {
	w := c.s.w
	for len(c.waiting) > 0 && len(c.ready) > 0 {
		seq := c.ready[0]
		c.ready = c.ready[1:]
		m := c.s.messages[seq]
		if m == nil {
			delete(c.pending, seq)
			continue
		}
		p := c.pending[seq]
		if p == nil {
			p = &pending{}
			c.pending[seq] = p
		}
		p.deliveries++
		c.redeliver(seq, ackWait)
		i := w.rng.IntN(len(c.waiting))
		t := c.waiting[i]
		c.waiting = slices.Delete(c.waiting, i, i+1)
		d := &delivery{c: c, message: m, count: p.deliveries}
		w.after(w.between(50*time.Microsecond, 900*time.Microsecond), func() { t.resume(d, nil) })
	}
}

// redeliver puts a pending message back after d.
func (c *consumer) redeliver(seq uint64, d time.Duration) {
	p := c.pending[seq]
	p.epoch++
	epoch := p.epoch
	c.s.w.after(d, func() {
		if q := c.pending[seq]; q == p && q.epoch == epoch {
			c.ready = append([]uint64{seq}, c.ready...)
			c.pump()
		}
	})
}

func (d *delivery) ack(t *task) {
	_, _ = t.request("ack", func() (any, error) {
		delete(d.c.pending, d.seq)
		if d.c.s.queue {
			delete(d.c.s.messages, d.seq)
		}
		return nil, nil
	})
}

func (d *delivery) nak(t *task, delay time.Duration) { d.hold(t, "nak", delay) }

func (d *delivery) inProgress(t *task) { d.hold(t, "in progress", ackWait) }

func (d *delivery) hold(t *task, what string, delay time.Duration) {
	_, _ = t.request(what, func() (any, error) {
		if d.c.pending[d.seq] != nil {
			d.c.redeliver(d.seq, delay)
		}
		return nil, nil
	})
}

// bucket is a key-value bucket with compare-and-set.
type bucket[V any] struct {
	w        *world
	revision uint64
	entries  map[string]value[V]
}

// value of a key; revision 0 means none.
type value[V any] struct {
	v        V
	revision uint64
	expires  time.Duration
}

func newBucket[V any](w *world) *bucket[V] { return &bucket[V]{w: w, entries: map[string]value[V]{}} }

func (b *bucket[V]) read(key string) value[V] {
	v := b.entries[key]
	if v.expires > 0 && b.w.now >= v.expires {
		return value[V]{}
	}
	return v
}

// set writes v if the key is at revision. It fails with errConflict.
func (b *bucket[V]) set(key string, v V, revision uint64, ttl time.Duration) (uint64, error) {
	if b.read(key).revision != revision {
		return 0, errConflict
	}
	b.revision++
	e := value[V]{v: v, revision: b.revision}
	if ttl > 0 {
		e.expires = b.w.now + ttl
	}
	b.entries[key] = e
	return b.revision, nil
}

// get reads through the leader.
func get[V any](t *task, b *bucket[V], key string) (value[V], error) {
	v, err := t.request("get "+key, func() (any, error) { return b.read(key), nil })
	if err != nil {
		return value[V]{}, err
	}
	return v.(value[V]), nil
}

func set[V any](t *task, b *bucket[V], key string, v V, revision uint64, ttl time.Duration) (uint64, error) {
	rev, err := t.request("set "+key, func() (any, error) { return b.set(key, v, revision, ttl) })
	if err != nil {
		return 0, err
	}
	return rev.(uint64), nil
}
