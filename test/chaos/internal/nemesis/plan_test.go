package nemesis_test

import (
	"slices"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/test/chaos/internal/nemesis"
)

const (
	length  = 100 * time.Second
	ackWait = 4 * time.Second
)

func services() []string { return []string{"a", "b", "c"} }
func nodes() []string    { return []string{"n1", "n2", "n3"} }

func plans(seed uint64) map[string]nemesis.Plan {
	return map[string]nemesis.Plan{
		"processes": nemesis.Processes(seed, length, services(), "nats"),
		"cluster":   nemesis.Cluster(seed, length, services(), nodes()),
	}
}

func TestPlan_IsASeedsOnly(t *testing.T) {
	t.Parallel()
	for name, p := range plans(7) {
		if again := plans(7)[name]; again.String() != p.String() {
			t.Errorf("%s: the same seed gave\n%s\nand\n%s", name, p, again)
		}
		if other := plans(8)[name]; other.String() == p.String() {
			t.Errorf("%s: another seed gave the same plan", name)
		}
	}
}

// Whatever the seed, a plan does all that it is for, in its time.
func TestPlan_DoesEverything(t *testing.T) {
	t.Parallel()
	want := map[string][]nemesis.Kind{
		"processes": {nemesis.KillService, nemesis.PauseService, nemesis.RollServices, nemesis.KillServer, nemesis.PauseServer, nemesis.RestartServer},
		"cluster":   {nemesis.KillService, nemesis.KillServer, nemesis.Partition, nemesis.Isolate, nemesis.Latency, nemesis.Disconnect, nemesis.RestartServer},
	}
	for seed := range uint64(200) {
		for name, p := range plans(seed) {
			var last time.Duration
			for _, a := range p.Actions {
				if a.At < last || a.At >= length {
					t.Errorf("%s of seed %d: out of order or time: %s", name, seed, a)
				}
				last = a.At
				if (a.Kind == nemesis.PauseService || a.Kind == nemesis.PauseServer) && a.For <= ackWait {
					t.Errorf("%s of seed %d: not beyond AckWait: %s", name, seed, a)
				}
			}
			for _, kind := range want[name] {
				if !slices.ContainsFunc(p.Actions, func(a nemesis.Action) bool { return a.Kind == kind }) {
					t.Errorf("%s of seed %d: no %s", name, seed, kind)
				}
			}
		}
	}
}

// Every service meets a kill and a pause over a few seeds.
func TestPlan_SparesNobody(t *testing.T) {
	t.Parallel()
	met := map[string]bool{}
	for seed := range uint64(20) {
		for _, a := range nemesis.Processes(seed, length, services(), "nats").Actions {
			met[string(a.Kind)+" "+a.Target] = true
		}
	}
	for _, s := range services() {
		for _, k := range []nemesis.Kind{nemesis.KillService, nemesis.PauseService} {
			if !met[string(k)+" "+s] {
				t.Errorf("%s: never %s", s, k)
			}
		}
	}
}
