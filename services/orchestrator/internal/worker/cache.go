package worker

import (
	"container/list"
	"sync"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// cache keeps the records this process wrote or read last, decoded. It may be
// stale: the compare-and-set finds out, and a decision that changes nothing is
// made again on a fresh read.
type cache struct {
	mu    sync.Mutex
	max   int
	order *list.List // of *cached, newest first
	byRun map[crumbs.RunID]*list.Element
}

type cached struct {
	run   crumbs.RunID
	entry entry
}

func newCache(limit int) *cache {
	return &cache{max: limit, order: list.New(), byRun: map[crumbs.RunID]*list.Element{}}
}

// get returns a copy: the caller may change it.
func (c *cache) get(run crumbs.RunID) (*entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.byRun[run]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(el)
	e := el.Value.(*cached).entry
	e.cached = true
	return &e, true
}

func (c *cache) put(run crumbs.RunID, e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.byRun[run]; ok {
		el.Value.(*cached).entry = *e
		c.order.MoveToFront(el)
		return
	}
	c.byRun[run] = c.order.PushFront(&cached{run, *e})
	if c.order.Len() > c.max {
		last := c.order.Back()
		c.order.Remove(last)
		delete(c.byRun, last.Value.(*cached).run)
	}
}

func (c *cache) drop(run crumbs.RunID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.byRun[run]; ok {
		c.order.Remove(el)
		delete(c.byRun, run)
	}
}
