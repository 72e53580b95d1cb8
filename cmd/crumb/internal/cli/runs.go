package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/render"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
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
	Status string `help:"running, suspended, stopping, completed, failed, cancelled or all." enum:"running,suspended,stopping,completed,failed,cancelled,all" default:"all"`
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
	if cmd.Status == "all" {
		cmd.Status = ""
	}
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
	Early  bool   `help:"Also when nobody knows the run yet: it is then cancelled when it is asked for."`
}

// What became of a cancel, in cancelled.
const (
	cancelAsked   = "asked"    // the run goes on until it has ended what it does
	cancelTooLate = "too-late" // the run had ended
	cancelEarly   = "early"    // the run is not known yet
)

// cancelled is what `runs cancel --json` prints.
type cancelled struct {
	RunID  crumbs.RunID `json:"runId"`
	Status string       `json:"status,omitempty"` // of the run before
	Cancel string       `json:"cancel"`           // asked, too-late or early
}

// Help says what the flags do not.
func (runsCancelCommand) Help() string {
	return "The run's crumbs say what became of it. With --json: status is that before, and cancel is asked, too-late (it had ended and stays as it is) or early."
}

// Run asks that a run ends; its crumbs say what became of it. A run that nobody
// knows is an error: a mistyped id must not look like a run that ends, and would
// end another one day. The request itself may be on its way, hence --early.
func (cmd runsCancelCommand) Run(i *invocation) error {
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	run := crumbs.RunID(cmd.RunID)
	if _, err := mesh.RunView(i.ctx, run); !cmd.Early && err != nil {
		if fault.CodeOf(err) == fault.RunNotFound {
			return fault.Wrap(fault.RunNotFound, err, "no run %s is known, and none is cancelled; if its request is on the way, `%s runs cancel %s --early` cancels it when it comes", run, i.self(), run)
		}
		return err
	}
	reply, err := mesh.Cancel(i.ctx, run, cmd.Reason)
	if err != nil {
		return err
	}
	return i.tellCancelled(reply)
}

func (i *invocation) tellCancelled(reply crumbs.RunCancelReply) error {
	c := cancelled{RunID: reply.RunID, Status: reply.Status, Cancel: cancelAsked}
	text := fmt.Sprintf("%s was %s and will be cancelled; follow it with `%s watch %s`", c.RunID, c.Status, i.self(), c.RunID)
	switch reply.Status {
	case "":
		c.Cancel, text = cancelEarly, fmt.Sprintf("%s is not known yet: it will be cancelled when it comes", c.RunID)
	case runCompleted, runFailed, runCancelled:
		c.Cancel, text = cancelTooLate, fmt.Sprintf("%s had ended: %s", c.RunID, c.Status)
	}
	if i.globals.JSON {
		return i.document(c)
	}
	return i.print("%s", text)
}
