package nemesis

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is what is done.
type Kind string

// The kinds.
const (
	KillService   Kind = "kill -9 of a service"
	PauseService  Kind = "SIGSTOP of a service beyond AckWait"
	RollServices  Kind = "rolling restart of all services (SIGTERM)"
	KillServer    Kind = "kill -9 of a nats-server"
	PauseServer   Kind = "SIGSTOP of a nats-server"
	RestartServer Kind = "restart of a nats-server (SIGTERM)"
	Partition     Kind = "partition: a nats-server cut off from everybody"
	Isolate       Kind = "partition: a nats-server cut off from its peers, its clients stay"
	Latency       Kind = "latency between services and NATS"
	Disconnect    Kind = "connections of services cut and refused"
)

// Action is one thing that is done.
type Action struct {
	At     time.Duration // from the start of the load
	Kind   Kind
	Target string        // a process, a node, or Leader + a stream
	For    time.Duration // how long it lasts; how long a killed server stays away
	Delay  time.Duration // of Latency: each way
	Jitter time.Duration // of Latency
}

// Leader before the name of a stream aims at the node that leads it then.
const Leader = "leader of "

// String is the action in one line.
func (a Action) String() string {
	s := fmt.Sprintf("%6.1fs  %s", a.At.Seconds(), a.Kind)
	if a.Target != "" {
		s += ": " + a.Target
	}
	if a.For > 0 {
		s += fmt.Sprintf(" for %.1fs", a.For.Seconds())
	}
	if a.Delay > 0 {
		s += fmt.Sprintf(", %v ± %v each way", a.Delay, a.Jitter)
	}
	return s
}

// Plan is what is done to one mesh, in the order of time.
type Plan struct {
	Length  time.Duration // of the load
	Actions []Action
}

// String is the plan, an action a line.
func (p Plan) String() string {
	var b strings.Builder
	for _, a := range p.Actions {
		b.WriteString(a.String() + "\n")
	}
	return b.String()
}

// planner draws from the seed.
type planner struct {
	*rand.Rand
	plan Plan
}

func newPlanner(seed uint64, length time.Duration) *planner {
	const stream = 0x6372756d62 // one of many of the generator
	return &planner{rand.New(rand.NewPCG(seed, stream)), Plan{Length: length}}
}

// between draws a duration, in steps of 10 ms.
func (p *planner) between(from, to time.Duration) time.Duration {
	const step = 10 * time.Millisecond
	return from + time.Duration(p.Int64N(int64((to-from)/step)+1))*step
}

func (p *planner) one(of []string) string { return of[p.IntN(len(of))] }

func (p *planner) add(a Action) { p.plan.Actions = append(p.plan.Actions, a) }

// part is a share of the plan's length.
func (p *planner) part(share float64) time.Duration {
	return time.Duration(float64(p.plan.Length) * share).Round(10 * time.Millisecond)
}

// during adds actions one after the other, with a pause between their beginnings.
func (p *planner) during(from, to float64, pauseMin, pauseMax time.Duration, what func(at time.Duration) Action) {
	for at := p.part(from) + p.between(0, pauseMin); at < p.part(to); at += p.between(pauseMin, pauseMax) {
		p.add(what(at))
	}
}

func (p *planner) done() Plan {
	slices.SortStableFunc(p.plan.Actions, func(a, b Action) int { return cmp.Compare(a.At, b.At) })
	return p.plan
}
