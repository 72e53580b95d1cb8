package nemesis

import "time"

// Streams whose leaders the plan aims at: the records of runs, and the answers.
const (
	streamRuns  = "KV_runs"
	streamInbox = "INBOX"
)

// edgeSlack keeps kills away from the moments in which the proxy changes its ways.
const edgeSlack = 1500 * time.Millisecond

// Cluster is the plan against a mesh on three nats-servers: nodes are killed, cut
// off from everybody and from their peers only, the way to them is made long, and
// connections are cut. Services are killed in between.
func Cluster(seed uint64, length time.Duration, services, nodes []string) Plan {
	p := newPlanner(seed, length)
	cut := func() time.Duration { return p.between(8*time.Second, 12*time.Second) }
	down := func() time.Duration { return p.between(time.Second, 5*time.Second) }
	p.add(Action{At: p.part(0.05), Kind: KillServer, Target: Leader + streamRuns, For: down()})
	p.add(Action{At: p.part(0.18), Kind: KillServer, Target: p.one(nodes), For: down()})
	p.add(Action{At: p.part(0.30), Kind: Partition, Target: Leader + streamInbox, For: cut()})
	p.add(Action{At: p.part(0.47), Kind: Isolate, Target: Leader + streamRuns, For: cut()})
	slow := Action{At: p.part(0.64), Kind: Latency, For: p.part(0.16), Delay: 200 * time.Millisecond, Jitter: 100 * time.Millisecond}
	p.add(slow)
	p.during(0.82, 0.95, time.Second, 3*time.Second, func(at time.Duration) Action {
		return Action{At: at, Kind: Disconnect, Target: p.one(nodes), For: p.between(300*time.Millisecond, 2*time.Second)}
	})
	p.during(0.02, 0.95, 4*time.Second, 8*time.Second, func(at time.Duration) Action {
		for _, edge := range []time.Duration{slow.At, slow.At + slow.For} { // the proxy is changed then
			if (at - edge).Abs() < edgeSlack {
				at = edge + edgeSlack
			}
		}
		return Action{At: at, Kind: KillService, Target: p.one(services)}
	})
	p.add(Action{At: p.part(0.96), Kind: RestartServer, Target: p.one(nodes)})
	return p.done()
}
