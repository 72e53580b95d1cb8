package cli

import (
	"strconv"
	"time"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/render"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// Statuses of runs that have ended.
const (
	runCompleted = "completed"
	runFailed    = "failed"
	runCancelled = "cancelled"
)

type runsCommand struct {
	List   runsListCommand   `cmd:"" help:"List runs, the newest first."`
	Get    runsGetCommand    `cmd:"" help:"Show a run."`
	Cancel runsCancelCommand `cmd:"" help:"Cancel a run."`
}

type runsListCommand struct {
	Status string `help:"running, suspended, stopping, completed, failed or cancelled." placeholder:"STATUS"`
	Agent  string `help:"Of one agent." placeholder:"AGENT"`
	Limit  int    `help:"At most so many (50)." placeholder:"N"`
}

// Run prints the runs.
func (cmd runsListCommand) Run(i *invocation) error {
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	list, err := mesh.Runs(i.ctx, crumbs.RunList{Status: cmd.Status, AgentID: crumbs.AgentID(cmd.Agent), Limit: cmd.Limit})
	if err != nil {
		return err
	}
	table := render.Table{Header: []string{"RUN", "AGENT", "STATUS", "STEP", "STARTED", "TOOK"}}
	for _, r := range list.Runs {
		if i.globals.JSON {
			if err := i.document(r); err != nil {
				return err
			}
			continue
		}
		table.Add(string(r.RunID), string(r.AgentID), r.Status, strconv.Itoa(r.Step), r.StartedAt.Local().Format(time.DateTime), took(r))
	}
	if list.Truncated {
		i.say("crumb: there are more; narrow the list with --status or --agent, or raise --limit")
	}
	if !i.globals.JSON && len(list.Runs) == 0 {
		i.say("no runs")
	}
	return table.Write(i.std.Out)
}

// took is how long a run took, "" while it has not ended.
func took(r crumbs.RunView) string {
	if r.EndedAt == nil {
		return ""
	}
	return render.Duration(r.EndedAt.Sub(r.StartedAt.Time).Milliseconds())
}

// runID is the argument of the commands on one run.
type runID struct {
	RunID string `arg:"" name:"run" help:"Id of the run."`
}

type runsGetCommand struct {
	runID
}

// Run prints one run.
func (cmd runsGetCommand) Run(i *invocation) error {
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	view, err := mesh.RunView(i.ctx, crumbs.RunID(cmd.RunID))
	if err != nil {
		return err
	}
	return i.show(view)
}

type runsCancelCommand struct {
	runID
	Reason string `help:"Why; it stands in the run's last crumb." placeholder:"TEXT"`
}

// Run asks that a run ends; its crumbs say what became of it.
func (cmd runsCancelCommand) Run(i *invocation) error {
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	reply, err := mesh.Cancel(i.ctx, crumbs.RunID(cmd.RunID), cmd.Reason)
	if err != nil {
		return err
	}
	if i.globals.JSON {
		return i.document(reply)
	}
	switch reply.Status {
	case "":
		return i.print("%s is not known yet: it will be cancelled when it comes", cmd.RunID)
	case runCompleted, runFailed, runCancelled:
		return i.print("%s had ended: %s", cmd.RunID, reply.Status)
	}
	return i.print("%s was %s and will be cancelled; follow it with `%s watch %s`", cmd.RunID, reply.Status, i.self(), cmd.RunID)
}
