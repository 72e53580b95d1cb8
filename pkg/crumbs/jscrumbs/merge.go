package jscrumbs

import (
	"slices"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// DeltaWait is how long Follow waits for a delta that should be there: the rest
// of those a closing crumb counts, and one whose successor came first.
const DeltaWait = 250 * time.Millisecond

// merge makes one order of the crumbs and the deltas of a run. It has no clock:
// the time is an argument, so that a reader's own slowness need not count.
//
// Rules: crumbs by number; a delta after the crumb it names, by (attempt, index)
// inside its call; a crumb that closes a call after the call's deltas, which it
// waits for at most DeltaWait; a delta of a closed call never. A partial result that
// is kept is a delta first and a crumb later: what comes first is passed on, and the
// other is not.
type merge struct {
	run    crumbs.RunID
	after  uint64 // the cursor: nothing at or before it is handed on
	strict bool   // the crumbs must begin right after the cursor

	seen    bool   // a crumb came
	tail    uint64 // number of the last crumb that came
	last    uint64 // number of the last crumb that was passed on
	queue   []held // crumbs that came and were not passed on
	streams []*stream
	closed  map[call]bool
	shown   map[piece]bool // of calls that are not closed
	waiting int            // deltas that came and were not passed on
	ended   bool           // the terminal crumb was passed on
	live    *tide
}

// tide is how far the reading of deltas has come.
type tide struct {
	caught bool      // up with those that were stored when the reading began
	moved  time.Time // when the last delta came
}

// piece names a partial result that may come twice.
type piece struct {
	call           call
	attempt, index int
}

type held struct {
	item Item
	came time.Time
}

// stream is the deltas of one call.
type stream struct {
	call     call
	attempts []*attempt // ascending; those before the last are over
	floor    int        // attempts below it are over and gone
}

type attempt struct {
	number  int
	next    int          // index that shall be passed on next
	passed  int          // how many were
	items   map[int]held // came, not passed on
	lacking time.Time    // since when next is missing while later ones are there
}

func newMerge(run crumbs.RunID, after uint64, strict bool, live *tide) *merge {
	return &merge{run: run, after: after, strict: strict, live: live, closed: map[call]bool{}, shown: map[piece]bool{}}
}

// crumb takes a crumb. It returns CRUMBS_EXPIRED when crumbs before it, which
// should have come, are gone.
func (m *merge) crumb(i Item, now time.Time) error {
	switch {
	case m.seen && i.Seq <= m.tail:
		return nil // read again after a reconnect
	case m.seen && i.Seq != m.tail+1:
		return expired(m.run, m.tail+1, i.Seq)
	case !m.seen && m.strict && i.Seq > m.after+1:
		return expired(m.run, m.after+1, i.Seq)
	case !m.seen:
		m.seen, m.last = true, i.Seq-1
	}
	m.tail = i.Seq
	m.queue = append(m.queue, held{i, now})
	return nil
}

func expired(run crumbs.RunID, from, first uint64) error {
	return fault.New(fault.CrumbsExpired, "crumbs %d to %d of run %s are gone, the stream keeps them from %d on; read the run as it is and follow after %d",
		from, first-1, run, first, first-1).With("runId", run).With("firstSeq", first)
}

// delta takes a delta. One that came before, or whose call is closed, is dropped.
func (m *merge) delta(i Item, now time.Time) {
	if m.closed[i.call] || m.ended || m.shown[i.piece()] {
		return
	}
	s := m.stream(i.call)
	if s == nil {
		s = &stream{call: i.call}
		m.streams = append(m.streams, s)
	}
	a := s.attempt(i.Attempt)
	if a == nil || i.Index < a.next {
		return
	}
	if _, twice := a.items[i.Index]; twice {
		return
	}
	a.items[i.Index] = held{i, now}
	a.mark(now)
	m.waiting++
}

func (m *merge) stream(c call) *stream {
	for _, s := range m.streams {
		if s.call == c {
			return s
		}
	}
	return nil
}

// attempt returns the deltas of attempt n, nil when that is over.
func (s *stream) attempt(n int) *attempt {
	if n < s.floor {
		return nil
	}
	at, found := slices.BinarySearchFunc(s.attempts, n, func(a *attempt, n int) int { return a.number - n })
	if !found {
		s.attempts = slices.Insert(s.attempts, at, &attempt{number: n, items: map[int]held{}})
	}
	return s.attempts[at]
}

// mark notes since when the next delta is missing.
func (a *attempt) mark(now time.Time) {
	switch _, there := a.items[a.next]; {
	case there || len(a.items) == 0:
		a.lacking = time.Time{}
	case a.lacking.IsZero():
		a.lacking = now
	}
}

// next returns what shall be passed on now.
func (m *merge) next(now time.Time) (Item, bool) {
	for !m.ended {
		if i, ok := m.nextDelta(now); ok {
			return i, true
		}
		if len(m.queue) == 0 {
			return Item{}, false
		}
		h := m.queue[0]
		if h.item.Seq > m.after {
			if m.holds(h) && now.Before(m.until(h)) {
				return Item{}, false
			}
			if i, ok := m.flush(h.item, now); ok {
				return i, true
			}
		}
		m.queue[0], m.queue = held{}, m.queue[1:]
		first := !h.item.kept || m.keep(h.item, now)
		i := m.pass(h.item)
		if first && i.Seq > m.after {
			return i, true
		}
	}
	return Item{}, false
}

// nextDelta returns a delta whose turn it is.
func (m *merge) nextDelta(now time.Time) (Item, bool) {
	for _, s := range m.streams {
		if i, ok := s.pop(now, false, func(h held) bool { return m.open(h, now) }); ok {
			return m.took(i), true
		}
	}
	return Item{}, false
}

// took notes a delta that is passed on. Only the first partial results of an attempt
// can come again as crumbs.
func (m *merge) took(i Item) Item {
	m.waiting--
	if i.call.tool != "" && i.Index < crumbs.PartialsMax {
		m.shown[i.piece()] = true
	}
	return i
}

// keep notes a partial result that comes as a crumb, and reports whether it is new:
// not passed on as a delta. The delta, which may be here or on its way, is not passed
// on any more.
func (m *merge) keep(i Item, now time.Time) bool {
	if m.shown[i.piece()] {
		return false
	}
	m.shown[i.piece()] = true
	s := m.stream(i.call)
	if s == nil {
		s = &stream{call: i.call}
		m.streams = append(m.streams, s)
	}
	a := s.attempt(i.Attempt)
	if a == nil {
		return true
	}
	if _, here := a.items[i.Index]; here {
		delete(a.items, i.Index)
		m.waiting--
	}
	if a.next == i.Index {
		a.next++
	}
	a.passed++
	a.lacking = time.Time{}
	a.mark(now)
	return true
}

// open reports whether the crumb before a delta was passed on. Who follows from
// some instant on cannot know of a crumb before it: if none comes, it was.
func (m *merge) open(h held, now time.Time) bool {
	if m.seen {
		return h.item.Seq <= m.last && m.last >= m.after
	}
	return !m.strict && !now.Before(h.came.Add(DeltaWait))
}

// pop takes the next delta of a call. With all, those that are missing before it
// are given up.
func (s *stream) pop(now time.Time, all bool, open func(held) bool) (Item, bool) {
	for len(s.attempts) > 0 {
		a, over := s.attempts[0], len(s.attempts) > 1
		if i, ok := a.pop(now, all || over, open); ok {
			return i, true
		}
		if !over || len(a.items) > 0 {
			return Item{}, false
		}
		s.attempts = s.attempts[1:]
		s.floor = s.attempts[0].number
	}
	return Item{}, false
}

func (a *attempt) pop(now time.Time, all bool, open func(held) bool) (Item, bool) {
	index := a.next
	h, ok := a.items[index]
	if !ok && len(a.items) > 0 && (all || !now.Before(a.lacking.Add(DeltaWait))) {
		index = a.first()
		h, ok = a.items[index]
	}
	if !ok || !open(h) {
		return Item{}, false
	}
	delete(a.items, index)
	a.next, a.passed = index+1, a.passed+1
	a.lacking = time.Time{}
	a.mark(now)
	return h.item, true
}

func (a *attempt) first() int {
	first, found := 0, false
	for index := range a.items {
		if !found || index < first {
			first, found = index, true
		}
	}
	return first
}

// missing is how many deltas of those a closing crumb counts did not come.
func (m *merge) missing(i Item) int {
	came := 0
	if a := m.counted(i); a != nil {
		came = a.passed + len(a.items)
	}
	return max(0, i.deltas-came)
}

// counted is what came of the attempt whose deltas a closing crumb counts, nil
// when nothing did. A crumb that does not name the attempt of its tool call is of
// a release before the field: the last one that came is taken for it.
func (m *merge) counted(i Item) *attempt {
	s := m.stream(i.call)
	if s == nil || len(s.attempts) == 0 {
		return nil
	}
	if i.closes == 0 {
		return s.attempts[len(s.attempts)-1]
	}
	at := slices.IndexFunc(s.attempts, func(a *attempt) bool { return a.number == i.closes })
	if at < 0 {
		return nil
	}
	return s.attempts[at]
}

// holds reports whether more deltas should be there before a closing crumb. As
// long as stored ones are being read, any may come, also of an earlier attempt.
func (m *merge) holds(h held) bool {
	return h.item.call != (call{}) && !h.item.kept && (!m.live.caught || m.missing(h.item) > 0)
}

// until is when a closing crumb is passed on whatever is missing. As long as
// stored deltas are being read the wait is counted from the last of them.
func (m *merge) until(h held) time.Time {
	from := h.came
	if !m.live.caught && m.live.moved.After(from) {
		from = m.live.moved
	}
	return from.Add(DeltaWait)
}

// flush returns one more delta that has to stand before a crumb: of the call it
// closes or, when it ends the run, of any.
func (m *merge) flush(i Item, now time.Time) (Item, bool) {
	terminal := crumbs.Terminal(i.Type)
	for _, s := range m.streams {
		if !terminal && (s.call != i.call || i.kept) {
			continue
		}
		if d, ok := s.pop(now, true, func(held) bool { return true }); ok {
			return m.took(d), true
		}
	}
	return Item{}, false
}

// pass makes a crumb the last one and closes its call.
func (m *merge) pass(i Item) Item {
	m.last = i.Seq
	m.ended = crumbs.Terminal(i.Type)
	if i.call == (call{}) || i.kept {
		return i
	}
	if i.Seq > m.after {
		i.DeltasMissing = m.missing(i)
	}
	m.closed[i.call] = true
	for p := range m.shown {
		if p.call == i.call {
			delete(m.shown, p)
		}
	}
	m.streams = slices.DeleteFunc(m.streams, func(s *stream) bool {
		if s.call != i.call {
			return false
		}
		for _, a := range s.attempts {
			m.waiting -= len(a.items) // of a call closed before the cursor
		}
		return true
	})
	return i
}

// wake is when next may return something although nothing came; zero = never.
func (m *merge) wake() time.Time {
	var wake time.Time
	earlier := func(t time.Time) {
		if wake.IsZero() || t.Before(wake) {
			wake = t
		}
	}
	if len(m.queue) > 0 && m.holds(m.queue[0]) {
		earlier(m.until(m.queue[0]))
	}
	for _, s := range m.streams {
		if t := m.wakeStream(s); !t.IsZero() {
			earlier(t)
		}
	}
	return wake
}

// wakeStream is when a delta that lacks its predecessor, or its crumb, is passed
// on without it; zero when that is not what it waits for.
func (m *merge) wakeStream(s *stream) time.Time {
	if len(s.attempts) == 0 || len(s.attempts[0].items) == 0 {
		return time.Time{}
	}
	var at time.Time
	a := s.attempts[0]
	if !a.lacking.IsZero() {
		at = a.lacking.Add(DeltaWait)
	}
	h := a.items[a.first()]
	switch {
	case !m.seen && m.strict, m.seen && !m.open(h, at):
		return time.Time{}
	case !m.seen && at.Before(h.came.Add(DeltaWait)):
		at = h.came.Add(DeltaWait)
	}
	return at
}
