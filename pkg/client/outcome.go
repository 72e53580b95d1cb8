package client

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Status is how a run ended, or that it waits for people.
type Status string

// The statuses of an Outcome.
const (
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
	Suspended Status = "suspended"
)

// Outcome is what became of a run. Suspended is an outcome of its own, never an
// empty output: Checkpoints then has the open questions, Resume answers one, and
// Wait after Seq waits for the next outcome.
type Outcome struct {
	Run    crumbs.RunID
	Status Status // "" when Run or Wait fail

	Output       json.RawMessage // of a completed run
	FinishReason string          // stop, steps, length or content-filter
	Files        []crumbs.File
	Steps        int
	Usage        *crumbs.Usage
	Cost         *crumbs.Cost
	Duration     time.Duration

	Checkpoints []crumbs.HumanRequired // the open questions, oldest first
	Err         *fault.Error           // why it failed or was cancelled, nil otherwise
	Warnings    []string               // of its start
	Seq         uint64                 // number of the last crumb seen
}

// Decode reads the output of a completed run into a value. It fails with the
// run's own error when it failed, and INVALID_MESSAGE when it is suspended or the
// output is of another shape.
func (o Outcome) Decode(into any) error {
	switch {
	case o.Err != nil:
		return o.Err
	case o.Status != Completed:
		return fault.New(fault.InvalidMessage, "run %s is %s: only a completed run has an output", o.Run, o.Status)
	}
	if err := json.Unmarshal(o.Output, into); err != nil {
		return fault.Wrap(fault.InvalidMessage, err, "the output of run %s is not what was expected: %v", o.Run, err)
	}
	return nil
}

// Wait follows a run until it ends or waits for people, and returns that. With
// After, a suspension up to that number is no outcome: after Resume, give the Seq
// of the Outcome that asked. OnHumanRequired tells of each question as it is
// asked; WithDeltas and UntilSuspended change nothing here.
//
// It fails as Follow does. Ending ctx ends the waiting, never the run: only Run
// cancels what it asked for.
func (c *Client) Wait(ctx context.Context, run crumbs.RunID, opts ...FollowOption) (Outcome, error) {
	f := followingOf(opts)
	out := Outcome{Run: run}
	// From the first crumb on: the open questions are those asked and not answered.
	opts = append(slices.Clone(opts), After(0), func(all *following) {
		all.Deltas, all.UntilSuspended = false, false
		if f.asked != nil {
			all.asked = unlessSeen(f.After, f.asked)
		}
	})
	for item, err := range c.Follow(ctx, run, opts...) {
		if err == nil {
			err = out.add(item)
		}
		if err != nil {
			return out, err
		}
		if item.Suspended && item.Pending == 0 && item.Seq > f.After && out.Status == "" {
			out.Status = Suspended
			return out, nil
		}
	}
	return out, nil
}

// add notes what a crumb says about the outcome.
func (o *Outcome) add(i Item) error {
	o.Seq = i.Seq
	switch i.Type {
	case crumbs.TypeRunStarted:
		var body crumbs.RunStarted
		if err := i.Decode(&body); err != nil {
			return err
		}
		o.Warnings = body.Warnings
	case crumbs.TypeHumanRequired:
		var body crumbs.HumanRequired
		if err := i.Decode(&body); err != nil {
			return err
		}
		o.Checkpoints = append(o.Checkpoints, body)
	case crumbs.TypeHumanResumed:
		var body crumbs.HumanResumed
		if err := i.Decode(&body); err != nil {
			return err
		}
		o.Checkpoints = slices.DeleteFunc(o.Checkpoints, func(q crumbs.HumanRequired) bool { return q.CheckpointID == body.CheckpointID })
	case crumbs.TypeRunEnded:
		return o.completed(i)
	case crumbs.TypeAgentError:
		return o.failed(i)
	}
	return nil
}

func (o *Outcome) completed(i Item) error {
	var body crumbs.RunEnded
	if err := i.Decode(&body); err != nil {
		return err
	}
	o.Status, o.Checkpoints = Completed, nil
	o.Output, o.FinishReason, o.Files, o.Steps = body.Output, body.FinishReason, body.Files, body.Steps
	o.Usage, o.Cost, o.Duration = body.Usage, body.Cost, milliseconds(body.DurationMs)
	return nil
}

func (o *Outcome) failed(i Item) error {
	var body crumbs.AgentError
	if err := i.Decode(&body); err != nil {
		return err
	}
	o.Status, o.Checkpoints, o.Err = Failed, nil, body.Error
	if body.Error.Code == fault.RunCancelled {
		o.Status = Cancelled
	}
	o.Steps, o.Usage, o.Cost, o.Duration = body.Steps, body.Usage, body.Cost, milliseconds(body.DurationMs)
	return nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
