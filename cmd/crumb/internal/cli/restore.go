package cli

import (
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

type restoreCommand struct {
	Dir string `arg:"" help:"The folder that nats backup account wrote." type:"path" placeholder:"DIR"`
}

// Help says what the flags do not.
func (restoreCommand) Help() string {
	return "Makes the streams, buckets and consumers of a backup on servers that are empty, and ends when every replica of each has everything. May be repeated: what is there is left alone, what a restore that was cut off left empty is made again. No service may run meanwhile; then `crumb init`. docs/operations.md says what to look at before workers start."
}

// Run restores one stream after another.
func (cmd restoreCommand) Run(i *invocation) (err error) {
	backups, err := mesh.ReadBackups(cmd.Dir)
	if err != nil {
		return err
	}
	conn, err := mesh.Connect(i.ctx, mesh.ConnectConfig{Server: i.globals.Server, Access: i.globals.access(), Name: "crumb restore", Logger: i.log()})
	if err != nil {
		return err
	}
	defer conn.Close()
	defer func() { err = conn.Refused(err, access.RoleProvisioner) }()
	for _, b := range backups {
		restored, err := conn.Restore(i.ctx, b)
		if err != nil {
			return err
		}
		if i.globals.JSON {
			if err := i.document(restored); err != nil {
				return err
			}
			continue
		}
		how := "restored"
		if restored.There {
			how = "there"
		}
		i.say("%-14s %-8s %d messages, %d consumers, on %d", restored.Stream, how, restored.Messages, restored.Consumers, restored.Replicas)
	}
	return nil
}
