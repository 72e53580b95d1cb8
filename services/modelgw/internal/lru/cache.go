// Package lru is a cache bounded by the cost of what it holds.
package lru

import (
	"container/list"
	"sync"
)

// Cache keeps the entries used last. Its zero value holds nothing; use New. It
// may be used by several goroutines.
type Cache[K comparable, V any] struct {
	mu      sync.Mutex
	costMax int
	cost    int
	order   *list.List // of *entry[K, V], last used first
	byKey   map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
	cost  int
}

// New returns a cache whose entries cost at most costMax together.
func New[K comparable, V any](costMax int) *Cache[K, V] {
	return &Cache[K, V]{costMax: costMax, order: list.New(), byKey: map[K]*list.Element{}}
}

// Get returns what Put kept under key.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.byKey[key]
	if !ok {
		return value, false
	}
	c.order.MoveToFront(el)
	return el.Value.(*entry[K, V]).value, true
}

// Put keeps value, and lets go of what was used longest ago. A value that costs
// more than the whole cache is not kept.
func (c *Cache[K, V]) Put(key K, value V, cost int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.byKey[key]; ok {
		c.remove(el)
	}
	if cost > c.costMax {
		return
	}
	c.byKey[key] = c.order.PushFront(&entry[K, V]{key, value, cost})
	c.cost += cost
	for c.cost > c.costMax {
		c.remove(c.order.Back())
	}
}

func (c *Cache[K, V]) remove(el *list.Element) {
	e := c.order.Remove(el).(*entry[K, V])
	delete(c.byKey, e.key)
	c.cost -= e.cost
}
