package cli

import (
	"context"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/process"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

type orchestratorCommand struct {
	serviceFlags
	verifierFlags

	Grace           time.Duration `help:"How long messages in hand may be decided on when the process stops." default:"15s" env:"CRUMB_GRACE"`
	HTTP            string        `name:"http" help:"Address of /livez, /readyz and /metrics; empty: none." default:"127.0.0.1:8481" env:"CRUMB_HTTP" placeholder:"ADDR"`
	RequestCapacity int           `help:"Requests held at once." default:"64" env:"CRUMB_REQUEST_CAPACITY"`
	EventCapacity   int           `help:"Outcomes and timers held at once, each." default:"256" env:"CRUMB_EVENT_CAPACITY"`
}

// Help says what the flags do not.
func (orchestratorCommand) Help() string {
	return "Run as many replicas as you like: any of them decides about any run. " + serviceHelp
}

// Run serves until the process is told to stop.
func (cmd orchestratorCommand) Run(i *invocation) error {
	if err := atLeastOne("--request-capacity", cmd.RequestCapacity); err != nil {
		return err
	}
	if err := atLeastOne("--event-capacity", cmd.EventCapacity); err != nil {
		return err
	}
	if err := positive("--grace", cmd.Grace); err != nil {
		return err
	}
	verifier, err := cmd.verifier()
	if err != nil {
		return err
	}
	return cmd.serve(i, "orchestrator", cmd.HTTP, func(ctx context.Context, conn *mesh.Conn, h process.Hooks) error {
		return orchestrator.Run(ctx, orchestrator.Config{
			Verify: verifier.Verify, Trace: h.Traced, RequestCapacity: cmd.RequestCapacity, EventCapacity: cmd.EventCapacity,
			Grace: cmd.Grace, Ready: h.Ready, Health: h.Health,
		}, conn)
	})
}
