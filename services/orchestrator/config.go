package orchestrator

import (
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/worker"
)

// Timing bounds every wait of a run; see DefaultTiming.
type Timing = core.Timing

// DefaultTiming returns the durations of a deployment.
func DefaultTiming() Timing { return core.DefaultTiming() }

// Point names a line of the loop at which a test may crash the process.
type Point = worker.Point

// Points lists the fault points in the order of the loop.
func Points() []Point { return worker.Points() }

// Capacity of the consume loops when Config leaves them open: messages held at
// once, those that wait for a busy run included.
const (
	DefaultRequestCapacity = 64
	DefaultEventCapacity   = 256
)

// GraceDefault is how long messages in hand may be decided on when the service
// stops. What is not done then goes back at once: another replica decides it.
const GraceDefault = 15 * time.Second

// Config of the orchestrator.
type Config struct {
	Verify          func(crumbs.Decision) error // checks the signature of a decision; required
	Timing          Timing                      // zero value: DefaultTiming
	TrustPrincipal  bool                        // believe bare principal claims (`crumb dev` only)
	Trace           bool                        // give untraced requests a trace of their own
	RequestCapacity int
	EventCapacity   int
	Grace           time.Duration             // for messages in hand when the service stops; 0 = GraceDefault
	SweepEvery      time.Duration             // between two looks for messages nobody will be handed; 0 = 30 s
	Ready           func()                    // called once all loops run
	At              func(Point, crumbs.RunID) // fault points of tests; nil in production
	Health          func(check func() error)  // receives the readiness check
}

func (c Config) complete() (Config, error) {
	if c.Verify == nil {
		return c, fault.New(fault.InvalidConfig, "orchestrator: no key to verify decisions; set CRUMB_APPROVALS_PUBKEY")
	}
	if c.Timing.StartBefore == 0 {
		c.Timing = DefaultTiming()
	}
	if c.RequestCapacity == 0 {
		c.RequestCapacity = DefaultRequestCapacity
	}
	if c.EventCapacity == 0 {
		c.EventCapacity = DefaultEventCapacity
	}
	if c.Grace == 0 {
		c.Grace = GraceDefault
	}
	return c, nil
}
