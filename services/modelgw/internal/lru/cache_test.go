package lru_test

import (
	"testing"

	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/lru"
)

func has(c *lru.Cache[string, int], key string) bool {
	_, ok := c.Get(key)
	return ok
}

func TestCache_DropsTheLongestUnused(t *testing.T) {
	t.Parallel()
	c := lru.New[string, int](3)
	c.Put("a", 1, 1)
	c.Put("b", 2, 1)
	c.Put("c", 3, 1)
	if v, ok := c.Get("a"); !ok || v != 1 {
		t.Fatalf("a: %d %v", v, ok)
	}
	c.Put("d", 4, 2)
	if !has(c, "a") || has(c, "b") || has(c, "c") || !has(c, "d") {
		t.Fatal("want a and d: b and c were used longest ago and d costs two")
	}
}

func TestCache_Replaces(t *testing.T) {
	t.Parallel()
	c := lru.New[string, int](2)
	c.Put("a", 1, 2)
	c.Put("a", 2, 1)
	c.Put("b", 3, 1)
	if v, ok := c.Get("a"); !ok || v != 2 {
		t.Fatalf("a: %d %v, want 2: its old cost no longer counts", v, ok)
	}
}

func TestCache_RefusesWhatIsLargerThanAll(t *testing.T) {
	t.Parallel()
	c := lru.New[string, int](2)
	c.Put("a", 1, 1)
	c.Put("b", 2, 3)
	if !has(c, "a") || has(c, "b") {
		t.Fatal("want a kept and b refused")
	}
}
