package cli

import (
	"slices"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/doctor"
	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/render"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

type doctorCommand struct{}

// Help says what the flags do not.
func (doctorCommand) Help() string {
	return "Looks at the server, streams, consumers, services, workers, clocks, permissions, answers and dead letters, and says of each fault what mends it. It changes nothing. Exit status 0: healthy, perhaps with warnings and hints; 1: something is broken. Commands are completed with the flags that reach this mesh; with --json they are plain."
}

// diagnosis is what `crumb doctor --json` prints.
type diagnosis struct {
	Healthy  bool             `json:"healthy"`
	Findings []doctor.Finding `json:"findings"`
}

// Run examines the mesh.
func (doctorCommand) Run(i *invocation) error {
	found, reached, err := i.examine()
	if err != nil {
		return err
	}
	healthy := doctor.Healthy(found)
	if i.globals.JSON {
		if err := i.document(diagnosis{healthy, slices.Concat([]doctor.Finding{}, found)}); err != nil {
			return err
		}
	} else if err := i.diagnosed(found, reached); err != nil {
		return err
	}
	if !healthy {
		return ended(statusFailed)
	}
	return nil
}

// examine reports false when no server was reached, and nothing else looked at.
func (i *invocation) examine() (found []doctor.Finding, reached bool, err error) {
	conn, err := mesh.Connect(i.ctx, mesh.ConnectConfig{Server: i.globals.Server, Access: i.globals.access(), Name: "crumb doctor", Logger: i.log()})
	if err == nil {
		defer conn.Close()
		var f doctor.Facts
		if f, err = doctor.Examine(i.ctx, conn); err == nil {
			return doctor.Diagnose(f), f.Server.JetStream, nil
		}
		err = conn.Refused(err, access.RoleOperator)
	}
	if fault.CodeOf(err) != fault.Unavailable {
		return nil, false, err
	}
	return []doctor.Finding{{Check: doctor.CheckServer, Level: doctor.Broken, What: fault.From(err).Message, Why: "everything goes over NATS", Command: "nats-server -js, or `crumb dev`, or name another server with --server"}}, false, nil
}

// diagnosed writes the checks for people: each that found nothing in one line.
func (i *invocation) diagnosed(found []doctor.Finding, reached bool) error {
	style := i.std.StyleOf(i.std.Out)
	for _, check := range doctor.Checks() {
		mine := slices.DeleteFunc(slices.Clone(found), func(f doctor.Finding) bool { return f.Check != check })
		if reached && len(mine) == 0 {
			if err := i.print("%s %s", style.Good("ok"), check); err != nil {
				return err
			}
		}
		for _, f := range mine {
			mark := style.Bad(string(f.Level))
			if f.Level == doctor.Hint {
				mark = string(f.Level)
			}
			if err := i.print("%s %s: %s\n     %s", mark, f.Check, i.calls(render.OneLine(f.What)), i.calls(render.OneLine(f.Why))); err != nil {
				return err
			}
			if f.Command != "" {
				if err := i.print("     → %s", i.calls(render.OneLine(f.Command))); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
