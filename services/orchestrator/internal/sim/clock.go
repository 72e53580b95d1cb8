package sim

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// epoch is when virtual time begins.
func epoch() time.Time { return time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC) }

// moment is something that happens at a time.
type moment struct {
	at time.Duration
	n  int // what was planned first happens first
	do func()
}

type agenda []moment

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].n < a[j].n
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(moment)) }
func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	*a = old[:len(old)-1]
	return last
}

// clock is virtual time: it jumps from one planned moment to the next.
type clock struct {
	now     time.Duration
	planned int
	agenda  agenda
}

// after plans do for d from now.
func (c *clock) after(d time.Duration, do func()) {
	c.planned++
	heap.Push(&c.agenda, moment{at: c.now + max(d, 0), n: c.planned, do: do})
}

// at is a time of the wire.
func (c *clock) at(d time.Duration) crumbs.Time { return crumbs.At(epoch().Add(d)) }

// until is how long from now t is.
func (c *clock) until(t crumbs.Time) time.Duration { return t.Sub(epoch()) - c.now }

// run lets everything happen that is planned before the end.
func (c *clock) run(end time.Duration) {
	for len(c.agenda) > 0 && c.agenda[0].at <= end {
		m := heap.Pop(&c.agenda).(moment)
		c.now = m.at
		m.do()
	}
}

func (c *clock) String() string { return fmt.Sprintf("%9.3fs", c.now.Seconds()) }
