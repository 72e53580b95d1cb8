package cli

import (
	"context"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/process"
	"github.com/crumbmesh/crumbmesh/services/modelgw"
)

type modelgwCommand struct {
	serviceFlags

	Provider []string      `help:"Provider instances to serve; each has its own queue." default:"script" env:"CRUMB_PROVIDER" placeholder:"NAME"`
	Slots    int           `help:"Calls of one instance at once." default:"64" env:"CRUMB_SLOTS"`
	Grace    time.Duration `help:"How long calls in hand may go on when the process stops." default:"20s" env:"CRUMB_GRACE"`
	HTTP     string        `name:"http" help:"Address of /livez, /readyz and /metrics; empty: none." default:"127.0.0.1:8483" env:"CRUMB_HTTP" placeholder:"ADDR"`
}

// Help says what the flags do not.
func (modelgwCommand) Help() string {
	return "Asks the providers for the model calls of runs. Scale it by starting more. " + serviceHelp
}

// Run serves until the process is told to stop.
func (cmd modelgwCommand) Run(i *invocation) error {
	if err := atLeastOne("--slots", cmd.Slots); err != nil {
		return err
	}
	if err := positive("--grace", cmd.Grace); err != nil {
		return err
	}
	return cmd.serve(i, "modelgw", cmd.HTTP, func(ctx context.Context, conn *mesh.Conn, h process.Hooks) error {
		return modelgw.Run(ctx, modelgw.Config{Providers: cmd.Provider, Slots: cmd.Slots, Grace: cmd.Grace, Ready: h.Ready, Health: h.Health}, conn)
	})
}
