package cli

import (
	"errors"

	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// redriveMax bounds how many letters one command redrives.
const redriveMax = 200

type deadRedriveCommand struct {
	Target string `arg:"" optional:"" name:"id" help:"Id of a dead letter, or of a call in flight: RUN.STEP.N."`
	RunID  string `name:"run" help:"All open letters of a run." placeholder:"RUN"`
	AllOf  string `help:"All open letters from a stream: REQUESTS, INBOX, MODELCALLS or TOOLCALLS." enum:",REQUESTS,INBOX,MODELCALLS,TOOLCALLS" default:"" placeholder:"STREAM"`
	Limit  int    `help:"At most so many of them." default:"200" placeholder:"N"`
	Force  bool   `help:"Also a call that had started, and what was redriven before."`
	giver
}

// Help says what the flags do not.
func (deadRedriveCommand) Help() string {
	return "A request is asked for again under its run id, as it was edited last. A call gets its next attempt from its run, with all its time; what of the attempt before still comes counts no more. While that next one is in flight a second redrive is told of it and sends nothing. A control goes back while its run lives. What cannot be redriven is refused with the reason: a call that has its outcome, anything of a run that has ended. With --run or --all-of the status is 1 when any was refused."
}

// Run redrives one letter or call, or many letters.
func (cmd deadRedriveCommand) Run(i *invocation) error {
	which := 0
	for _, choice := range []string{cmd.Target, cmd.RunID, cmd.AllOf} {
		if choice != "" {
			which++
		}
	}
	if which != 1 {
		return fault.New(fault.InvalidConfig, "expected the id of a letter or a call, or --run RUN, or --all-of STREAM, and one of them")
	}
	if cmd.Limit < 1 || cmd.Limit > redriveMax {
		return fault.New(fault.InvalidConfig, "--limit %d: expected 1 to %d", cmd.Limit, redriveMax)
	}
	one := crumbs.DeadRedrive{By: cmd.principal(), Reason: cmd.Reason, Force: cmd.Force}
	if cmd.Target != "" {
		t, err := parseTarget(cmd.Target)
		if err != nil {
			return err
		}
		one.ID, one.CallID = t.letter, t.call
	}
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	if cmd.Target == "" {
		return cmd.many(i, mesh, one)
	}
	receipt, err := mesh.Redrive(i.ctx, one)
	if err != nil {
		return err
	}
	return i.told(receipt)
}

// many redrives the open letters of a run or a stream, the oldest first, and tells
// of each. Only that NATS does not answer ends it early.
func (cmd deadRedriveCommand) many(i *invocation, mesh *client.Client, one crumbs.DeadRedrive) error {
	letters, more, err := cmd.open(i, mesh)
	if err != nil {
		return err
	}
	refused := 0
	for n := len(letters) - 1; n >= 0; n-- {
		one.ID = letters[n].ID
		receipt, err := mesh.Redrive(i.ctx, one)
		var f *fault.Error
		switch {
		case err == nil:
			if err := i.told(receipt); err != nil {
				return err
			}
			continue
		case !errors.As(err, &f) || f.Code == fault.Unavailable || f.Code == fault.InternalError:
			return err
		}
		refused++
		if i.globals.JSON {
			if err := i.document(map[string]any{"id": one.ID, "error": f}); err != nil {
				return err
			}
			continue
		}
		i.say("crumb: letter %d: %s", one.ID, f.Error())
	}
	if more {
		i.say("crumb: there are more; run this again")
	}
	if len(letters) == 0 {
		i.say("no open dead letters")
	}
	if refused > 0 {
		i.say("crumb: %d of %d refused", refused, len(letters))
		return ended(statusFailed)
	}
	return nil
}

// open lists the letters to redrive: those that nothing was done about but an edit.
func (cmd deadRedriveCommand) open(i *invocation, mesh *client.Client) (letters []crumbs.DeadLetter, more bool, err error) {
	ask := crumbs.DeadList{Stream: cmd.AllOf, RunID: crumbs.RunID(cmd.RunID), Limit: redriveMax}
	for {
		page, err := mesh.DeadLetters(i.ctx, ask)
		if err != nil {
			return nil, false, err
		}
		for _, l := range page.Letters {
			if l.Status != crumbs.DeadOpen && l.Status != crumbs.DeadEdited {
				continue
			}
			if len(letters) == cmd.Limit {
				return letters, true, nil
			}
			letters = append(letters, l)
		}
		if page.Next == 0 {
			return letters, false, nil
		}
		ask.Before = page.Next
	}
}
