package cli

import (
	"context"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/process"
	"github.com/crumbmesh/crumbmesh/services/toolexec"
)

type toolexecCommand struct {
	serviceFlags
	verifierFlags

	Dir   string        `help:"Project folder whose exec tools are served: crumb.yaml and agents/." required:"" type:"path" env:"CRUMB_DIR" placeholder:"DIR"`
	Group string        `help:"Queue to serve; tools of other groups are not touched." default:"scripts" env:"CRUMB_GROUP"`
	Slots int           `help:"Calls at once." default:"16" env:"CRUMB_SLOTS"`
	Grace time.Duration `help:"How long calls in hand may go on when the process stops." default:"30s" env:"CRUMB_GRACE"`
	HTTP  string        `name:"http" help:"Address of /livez, /readyz and /metrics; empty: none." default:"127.0.0.1:8482" env:"CRUMB_HTTP" placeholder:"ADDR"`
}

// Help says what the flags do not.
func (toolexecCommand) Help() string {
	return "Runs the commands of one folder for one group, and nothing else: a call names what the folder announced, never a command. " +
		"Scale it by starting more. " + serviceHelp
}

// Run serves until the process is told to stop.
func (cmd toolexecCommand) Run(i *invocation) error {
	if err := atLeastOne("--slots", cmd.Slots); err != nil {
		return err
	}
	if err := positive("--grace", cmd.Grace); err != nil {
		return err
	}
	verifier, err := cmd.verifier()
	if err != nil {
		return err
	}
	if _, err := (folder{cmd.Dir}).load(i); err != nil {
		return err
	}
	return cmd.serve(i, "toolexec", cmd.HTTP, func(ctx context.Context, conn *mesh.Conn, h process.Hooks) error {
		return toolexec.Run(ctx, toolexec.Config{
			Dir: cmd.Dir, Group: cmd.Group, Slots: cmd.Slots, Grace: cmd.Grace, Verify: verifier.Verify, Ready: h.Ready, Health: h.Health,
		}, conn)
	})
}

// positive refuses a duration that is none.
func positive(flag string, d time.Duration) error {
	if d <= 0 {
		return fault.New(fault.InvalidConfig, "%s: expected a duration over 0, got %s", flag, d)
	}
	return nil
}

// atLeastOne refuses a count under 1.
func atLeastOne(flag string, n int) error {
	if n < 1 {
		return fault.New(fault.InvalidConfig, "%s: expected at least 1, got %d", flag, n)
	}
	return nil
}
