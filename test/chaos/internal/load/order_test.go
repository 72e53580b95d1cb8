package load

import (
	"reflect"
	"testing"
)

// What is done with a run is the seed's; a campaign has some of everything.
func TestOrders_AreASeedsOnly(t *testing.T) {
	t.Parallel()
	const n = 300
	one := orders(7, "run_", n)
	if !reflect.DeepEqual(one, orders(7, "run_", n)) {
		t.Error("the same seed gave other runs")
	}
	if reflect.DeepEqual(one, orders(8, "run_", n)) {
		t.Error("another seed gave the same runs")
	}
	seen := map[string]int{}
	ids := map[string]bool{}
	for _, o := range one {
		ids[o.run] = true
		seen[o.agent]++
		if o.endpoint {
			seen["endpoint"]++
		}
		if o.cancel > 0 {
			seen["cancel"]++
		}
		if len(o.asks()) > 0 {
			seen[o.answer]++
		}
	}
	if len(ids) != n {
		t.Errorf("%d ids for %d runs", len(ids), n)
	}
	for _, what := range []string{"buyer", "stepper", "asker", "endpoint", "cancel", approve, edit, reject} {
		if seen[what] == 0 || seen[what] == n {
			t.Errorf("%s: %d of %d", what, seen[what], n)
		}
	}
}
