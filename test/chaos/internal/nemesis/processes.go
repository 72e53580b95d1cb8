package nemesis

import "time"

// Pauses are longer than the consumers' AckWait of four seconds, and than the
// duplicate window of a campaign.
const (
	pauseMin = 4500 * time.Millisecond
	pauseMax = 8 * time.Second
)

// Processes is the plan against a mesh on one nats-server: first everything is
// killed, then paused, both at once, then everything is restarted in turn.
func Processes(seed uint64, length time.Duration, services []string, server string) Plan {
	p := newPlanner(seed, length)
	kill := func(at time.Duration) Action { return Action{At: at, Kind: KillService, Target: p.one(services)} }
	p.during(0, 0.45, 400*time.Millisecond, 1500*time.Millisecond, kill)
	p.during(0.04, 0.45, 5*time.Second, 9*time.Second, func(at time.Duration) Action {
		return Action{At: at, Kind: KillServer, Target: server, For: p.between(100*time.Millisecond, 2*time.Second)}
	})
	p.during(0.45, 0.76, 1200*time.Millisecond, 2500*time.Millisecond, func(at time.Duration) Action {
		return Action{At: at, Kind: PauseService, Target: p.one(services), For: p.between(pauseMin, pauseMax)}
	})
	p.during(0.5, 0.76, 3*time.Second, 6*time.Second, kill)
	p.add(Action{At: p.part(0.6), Kind: PauseServer, Target: server, For: p.between(pauseMin, pauseMax)})
	p.add(Action{At: p.part(0.84), Kind: RollServices})
	p.add(Action{At: p.part(0.92), Kind: RestartServer, Target: server})
	return p.done()
}
