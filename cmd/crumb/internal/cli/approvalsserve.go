package cli

import (
	"context"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/process"
	"github.com/crumbmesh/crumbmesh/services/approvals"
)

type approvalsServeCommand struct {
	serviceFlags

	KeyFile  string        `help:"Seed file of the key that decisions are signed with; made when it is not there and the mesh has no key yet." type:"path" env:"CRUMB_APPROVALS_KEY_FILE" placeholder:"FILE"`
	Trust    []string      `help:"Further public keys: the old one while the key is rotated." env:"CRUMB_APPROVALS_TRUST" placeholder:"KEY"`
	Replaces string        `help:"Public key of the mesh's signing key whose place this one takes; any other key than the mesh's does not start." env:"CRUMB_APPROVALS_REPLACES" placeholder:"KEY"`
	Grace    time.Duration `help:"How long messages in hand may take when the process stops." default:"15s" env:"CRUMB_GRACE"`
	HTTP     string        `name:"http" help:"Address of /livez, /readyz and /metrics; empty: none." default:"127.0.0.1:8484" env:"CRUMB_HTTP" placeholder:"ADDR"`
}

// Help says what the flags do not.
func (approvalsServeCommand) Help() string {
	return "Keeps the questions of runs, signs the answers and sees that each arrives. All replicas have the same key, and one with another does not start. " + serviceHelp
}

// Run serves until the process is told to stop.
func (cmd approvalsServeCommand) Run(i *invocation) error {
	if cmd.KeyFile == "" {
		return fault.New(fault.InvalidConfig, "`crumb approvals` runs the service and needs --key-file FILE (CRUMB_APPROVALS_KEY_FILE), the seed of the key that decisions are signed with; questions are listed by `crumb approvals list`")
	}
	if err := positive("--grace", cmd.Grace); err != nil {
		return err
	}
	return cmd.serve(i, "approvals", cmd.HTTP, func(ctx context.Context, conn *mesh.Conn, h process.Hooks) error {
		return approvals.Run(ctx, approvals.Config{KeyFile: cmd.KeyFile, Trust: cmd.Trust, Replaces: cmd.Replaces, Grace: cmd.Grace, Ready: h.Ready, Health: h.Health}, conn)
	})
}
