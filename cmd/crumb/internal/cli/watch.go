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
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	p := i.printer(i.std.Out)
	p.runs = cmd.All
	var last string
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
		if !item.Delta {
			last = item.Type
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
func (cmd watchCommand) status(i *invocation, mesh *client.Client, last string) error {
	completed := last == crumbs.TypeRunEnded
	if last == "" {
		view, err := mesh.RunView(i.ctx, crumbs.RunID(cmd.RunID))
		if err != nil {
			return err
		}
		completed = view.Status == runCompleted
	}
	if !completed {
		return ended(statusFailed)
	}
	return nil
}

func (cmd watchCommand) follow(i *invocation, mesh *client.Client) iter.Seq2[client.Item, error] {
	if cmd.All {
		return mesh.FollowAll(i.ctx, time.Time{}, cmd.Deltas)
	}
	opts := []client.FollowOption{client.After(cmd.After)}
	if cmd.Deltas {
		opts = append(opts, client.WithDeltas())
	}
	return mesh.Follow(i.ctx, crumbs.RunID(cmd.RunID), opts...)
}
