package sim

import (
	"time"

	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

const (
	faultsEnd     = 12 * time.Minute
	end           = 6 * time.Hour
	workersEach   = 2
	pausesMax     = 3
	restarts      = 2
	outageMin     = 130 * time.Second
	outageMax     = 300 * time.Second
	night         = 40 * time.Minute
	requestsUntil = 20 * time.Second

	orchestratorName = "orchestrator"
)

// Report is what a simulation came to.
type Report struct {
	Violations []Violation
	Troubles   int // faults that happened
	Crumbs     int
	Trace      []string // with Config.Trace
}

// Run simulates one seed.
func Run(pinned core.Pinned, cfg Config) Report {
	w := newWorld(cfg, pinned)
	var replicas []*process
	for i := range cfg.Replicas {
		replicas = append(replicas, w.process(name(orchestratorName, i), w.orchestrator))
	}
	for _, g := range groups() {
		if g == deadGroup && cfg.Faults.Dead {
			continue
		}
		for i := range workersEach {
			w.process(name("worker-"+g, i), w.toolWorker(g))
		}
	}
	for i := range workersEach {
		w.process(name("gateway", i), w.gateway)
	}
	for i := range cfg.Runs {
		w.client(i)
	}
	w.plan(replicas)
	w.run(end)
	for _, p := range w.processes {
		p.stop()
	}
	r := Report{Violations: w.check(), Troubles: w.troubles, Trace: w.log}
	for _, stored := range w.seen.crumbs {
		r.Crumbs += len(stored)
	}
	return r
}

func name(kind string, i int) string { return kind + "-" + string(rune('a'+i)) }

// plan sets the faults that are not at a line or a request.
func (w *world) plan(replicas []*process) {
	f := w.cfg.Faults
	for _, p := range w.processes {
		for range pausesMax {
			if w.chance(f.Pause) {
				w.after(w.between(0, faultsEnd-outageMax), func() { p.pause(w.between(requestsUntil, outageMax)) })
			}
		}
	}
	if f.Restart {
		for range restarts {
			w.after(w.between(time.Second, faultsEnd/2), func() {
				w.logf("the server restarts")
				for _, s := range []*stream{w.requests, w.inbox, w.timers, w.modelCalls, w.toolCalls, w.crumbs} {
					s.restart()
				}
			})
		}
	}
	if f.AllDown {
		down := w.between(outageMin, outageMax)
		if f.Night {
			down = night
		}
		w.after(w.between(2*time.Second, time.Minute), func() {
			for _, p := range replicas {
				p.crash(down, "an outage")
			}
		})
	}
	calm := faultsEnd
	if f.Night {
		calm += night // the morning after has faults of its own
	}
	w.after(calm, func() { w.calm = true; w.logf("the faults are over") })
}
