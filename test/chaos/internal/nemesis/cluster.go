package nemesis

import "time"

// streams are those whose leaders the plan aims at: what decides about runs, calls
// and answers.
func streams() []string {
	return []string{"KV_runs", "KV_claims", "INBOX", "TOOLCALLS", "MODELCALLS", "CRUMBS"}
}

// edgeSlack keeps kills away from the moments in which the proxy changes its ways.
const edgeSlack = 1500 * time.Millisecond

// Cluster is the plan against a mesh on three nats-servers: nodes are killed, cut
// off from everybody and from their peers only, the way to them is made long, and
// connections are cut. Services are killed in between.
func Cluster(seed uint64, length time.Duration, services, nodes []string) Plan {
	p := newPlanner(seed, length)
	cut := func() time.Duration { return p.between(8*time.Second, 11*time.Second) }
	leader := func() string { return Leader + p.one(streams()) }
	down := func() time.Duration { return p.between(time.Second, 5*time.Second) }
	p.add(Action{At: p.part(0.05), Kind: KillServer, Target: leader(), For: down()})
	p.add(Action{At: p.part(0.14), Kind: KillServer, Target: p.one(nodes), For: down()})
	p.add(Action{At: p.part(0.22), Kind: Partition, Target: leader(), For: cut()})
	p.add(Action{At: p.part(0.36), Kind: Isolate, Target: leader(), For: cut()})
	p.add(Action{At: p.part(0.50), Kind: Isolate, Target: leader(), For: cut()})
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
