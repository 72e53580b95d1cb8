package cli

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

type watchCommand struct {
	RunID  string `arg:"" name:"run" optional:"" help:"Id of the run."`
	All    bool   `help:"Every run, from now on."`
	After  uint64 `help:"Only crumbs with a higher number." placeholder:"SEQ"`
	Deltas bool   `help:"Tokens and partial results too, as they come."`

	UntilSuspended bool `help:"End, with status 3, when the run waits for a person, too."`
}

// Help says what the flags do not.
func (watchCommand) Help() string {
	return "Waits for the end of the run, however long that takes: a run that waits for a person may take days. In a script use --until-suspended, which ends with status 3 then and prints how to answer. The status is else the run's. Interrupting leaves the run alone."
}

// Run follows until the run ends; waiting for people ends nothing. Its status is
// the run's.
func (cmd watchCommand) Run(i *invocation) error {
	if cmd.All == (cmd.RunID != "") {
		return fault.New(fault.InvalidConfig, "expected the id of a run or --all; see `crumb watch --help`")
	}
	if cmd.All && cmd.After > 0 {
		return fault.New(fault.InvalidConfig, "--after counts the crumbs of one run; it does not go with --all")
	}
	if cmd.All && cmd.UntilSuspended {
		return fault.New(fault.InvalidConfig, "--until-suspended is about one run; it does not go with --all")
	}
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	p := i.printer(i.std.Out)
	p.runs = cmd.All
	var last ending
	for item, err := range cmd.follow(i, mesh) {
		if errors.Is(err, context.Canceled) {
			return cmd.stopped()
		}
		if err != nil {
			return err
		}
		if err := p.item(item); err != nil {
			return err
		}
		if cmd.All { // has no end to tell of
			continue
		}
		if err := last.take(item); err != nil {
			return err
		}
	}
	return cmd.status(i, mesh, last)
}

// stopped is how watching ends that a person ended: of all runs it has no other
// end, of one run nothing is known yet.
func (cmd watchCommand) stopped() error {
	if cmd.All {
		return nil
	}
	return ended(statusFailed)
}

// status is the run's, by its last crumb or, when that was seen before, its record.
func (cmd watchCommand) status(i *invocation, mesh *client.Client, end ending) error {
	if end.last.Type == "" {
		view, err := mesh.RunView(i.ctx, crumbs.RunID(cmd.RunID))
		if err != nil {
			return err
		}
		if view.Status != runCompleted {
			return ended(statusFailed)
		}
		return nil
	}
	switch end.last.Type {
	case crumbs.TypeRunEnded:
		return nil
	case crumbs.TypeAgentError:
		return ended(statusFailed)
	}
	return i.waits(crumbs.RunID(cmd.RunID), end)
}

func (cmd watchCommand) follow(i *invocation, mesh *client.Client) iter.Seq2[client.Item, error] {
	if cmd.All {
		return mesh.FollowAll(i.ctx, time.Time{}, cmd.Deltas)
	}
	opts := []client.FollowOption{client.After(cmd.After)}
	if cmd.Deltas {
		opts = append(opts, client.WithDeltas())
	}
	if cmd.UntilSuspended {
		opts = append(opts, client.UntilSuspended())
	}
	return mesh.Follow(i.ctx, crumbs.RunID(cmd.RunID), opts...)
}
