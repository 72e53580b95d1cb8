package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/render"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

type explainCommand struct {
	runID
}

// Help says what the flags do not.
func (explainCommand) Help() string {
	return "What the run waits for and since when, who has it in hand, which limits hold, its last error, and for each tool the selector that decided. It changes nothing. Commands are completed with the flags that reach this mesh; with --json they are plain."
}

// Run explains one run.
func (cmd explainCommand) Run(i *invocation) error {
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	x, err := mesh.Explain(i.ctx, crumbs.RunID(cmd.RunID))
	if fault.CodeOf(err) == fault.RunNotFound {
		return fault.Wrap(fault.RunNotFound, err, "no run %s is on record: the id is mistyped, its request still waits in REQUESTS (`%s doctor` says whether requests are taken), or it ended so long ago that its record is gone", cmd.RunID, i.self())
	}
	if err != nil {
		return err
	}
	return i.explained(x)
}

// explained writes an explanation: a document as it came, or for people.
func (i *invocation) explained(x crumbs.RunExplained) error {
	if i.globals.JSON {
		return i.document(x)
	}
	return i.explain(x)
}

// explain writes an explanation for people, what to do first.
func (i *invocation) explain(x crumbs.RunExplained) error {
	r := x.Run
	if err := i.print("%s  %s  %s", r.RunID, r.AgentID, r.Status); err != nil {
		return err
	}
	if err := i.advise("", x.Advice, x.Command); err != nil {
		return err
	}
	for _, w := range x.WaitsFor {
		if len(x.WaitsFor) > 1 && w.Advice != x.Advice {
			if err := i.advise("  also: ", w.Advice, w.Command); err != nil {
				return err
			}
		}
	}
	if err := i.print("\n%s", facts(x)); err != nil {
		return err
	}
	table := render.Table{Header: []string{"TOOL", "VERDICT", "DECIDED BY", "GROUP", "WORKERS", "WAITING"}}
	for _, t := range x.Tools {
		workers, pending := "", ""
		if t.Group != "" {
			workers, pending = strconv.Itoa(t.Workers), strconv.FormatInt(t.Pending, 10)
		}
		table.Add(t.Tool, t.Verdict, decidedBy(t), t.Group, workers, pending)
	}
	return table.Write(i.std.Out)
}

// advise writes what to do, and the command that does it.
func (i *invocation) advise(lead, advice, command string) error {
	if err := i.print("%s%s", lead, i.calls(render.OneLine(advice))); err != nil || command == "" {
		return err
	}
	return i.print("%s  %s", strings.Repeat(" ", len(lead)), i.calls(render.OneLine(command)))
}

func decidedBy(t crumbs.RunTool) string {
	switch {
	case t.List != "":
		return fmt.Sprintf("%q of %s", t.Rule, t.List)
	case t.Verdict == "absent":
		return "no selector of permissions.allow names it"
	}
	return "no selector: allowed unless one says otherwise"
}

// facts are the lines under the advice.
func facts(x crumbs.RunExplained) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", name, render.OneLine(fmt.Sprintf(format, args...)))
	}
	r := x.Run
	line("started", "%s, %s ago", r.StartedAt.Local().Format(time.DateTime), render.Duration(x.At.Sub(r.StartedAt.Time).Milliseconds()))
	if r.EndedAt != nil {
		line("ended", "%s", r.EndedAt.Local().Format(time.DateTime))
	}
	line("steps", "%d of %d", x.Limits.Steps, x.Limits.StepsMax)
	if !x.Limits.DeadlineAt.IsZero() {
		line("deadline", "%s", x.Limits.DeadlineAt.Local().Format(time.DateTime))
	}
	if x.Timer != nil {
		line("next timer", "%s", x.Timer.Local().Format(time.DateTime))
	}
	for _, w := range x.WaitsFor {
		line("waits for", "%s %s since %s%s", w.Kind, w.What, w.Since.Local().Format(time.DateTime), hand(w))
	}
	if x.Unsent > 0 {
		line("unsent", "%d messages of the last decision", x.Unsent)
	}
	if l := x.Last; l != nil {
		line("last error", "%s in %s (crumb %d): %s", l.Error.Code, strings.TrimSpace(l.Type+" "+l.ToolName), l.Seq, l.Error.Message)
	}
	if u := r.Usage; u != nil {
		line("tokens", "%d in, %d out", u.InputTokens, u.OutputTokens)
	}
	if c := r.Cost; c != nil {
		line("cost", "%.6f %s", float64(c.Value)/1e6, c.Currency)
	}
	line("pinned", "agent %s, tools %.16s", r.Revision, x.ToolSet)
	if x.TraceID != "" {
		line("trace", "%s", x.TraceID)
	}
	return b.String()
}

// hand is which attempt a wait is for, if not the first, and who has it in hand.
func hand(w crumbs.RunWait) string {
	attempt := ""
	if w.Attempt > 1 {
		attempt = fmt.Sprintf(", attempt %d", w.Attempt)
	}
	if w.Worker == "" {
		return attempt
	}
	gone := ""
	if w.Place == crumbs.PlaceOrphan {
		gone = ", which is gone"
	}
	return fmt.Sprintf("%s, started %d× on %s%s", attempt, w.Starts, w.Worker, gone)
}
