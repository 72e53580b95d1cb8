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

type deadCommand struct {
	List    deadListCommand    `cmd:"" help:"List messages that were given up, the newest first."`
	Show    deadShowCommand    `cmd:"" help:"Show one whole, with what was done about it."`
	Edit    deadEditCommand    `cmd:"" help:"Give a request or a control another body."`
	Redrive deadRedriveCommand `cmd:"" help:"Have one worked on again, or send the next attempt of a call."`
	Answer  deadAnswerCommand  `cmd:"" help:"Supply the outcome of a call in its worker's place."`
	Close   deadCloseCommand   `cmd:"" help:"Say that nothing more is to be done about a letter, and why."`
}

type deadListCommand struct {
	Stream string `help:"From one stream: REQUESTS, INBOX, TIMERS, MODELCALLS, TOOLCALLS, CRUMBS or KV_runs." enum:",REQUESTS,INBOX,TIMERS,MODELCALLS,TOOLCALLS,CRUMBS,KV_runs" default:"" placeholder:"STREAM"`
	RunID  string `name:"run" help:"Of one run." placeholder:"RUN"`
	Before uint64 `help:"Only those with smaller ids." placeholder:"ID"`
	Limit  int    `help:"At most so many (50)." placeholder:"N"`
}

// Help says what the flags do not.
func (deadListCommand) Help() string {
	return "STATUS is open, or the last that was done: edited, redriven, answered, closed. Letters are kept 30 days. A call that waits for a worker is no dead letter: `crumb dead answer CALL` and `crumb dead redrive CALL` take it by its id."
}

// Run prints the letters.
func (cmd deadListCommand) Run(i *invocation) error {
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	page, err := mesh.DeadLetters(i.ctx, crumbs.DeadList{Stream: cmd.Stream, RunID: crumbs.RunID(cmd.RunID), Before: cmd.Before, Limit: cmd.Limit})
	if err != nil {
		return err
	}
	table := render.Table{Header: []string{"ID", "STATUS", "CODE", "FROM", "RUN", "AT", "REASON"}}
	for _, l := range page.Letters {
		if i.globals.JSON {
			if err := i.document(l); err != nil {
				return err
			}
			continue
		}
		table.Add(strconv.FormatUint(l.ID, 10), l.Status, string(l.Code), l.Stream, string(l.RunID), l.At.Local().Format(time.DateTime), l.Reason)
	}
	if page.Next > 0 {
		i.say("crumb: there are more; go on with --before %d, or narrow the list with --stream or --run", page.Next)
	}
	if !i.globals.JSON && len(page.Letters) == 0 {
		i.say("no dead letters")
	}
	return table.Write(i.std.Out)
}

type deadShowCommand struct {
	ID uint64 `arg:"" help:"Id of the letter (crumb dead list)."`
}

// Run prints one letter.
func (cmd deadShowCommand) Run(i *invocation) error {
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	l, err := mesh.DeadLetter(i.ctx, cmd.ID)
	if err != nil {
		return err
	}
	return i.show(l)
}

// target is the argument of the commands on a letter or a call.
type target struct {
	letter uint64
	call   crumbs.CallID
}

// parseTarget reads a number as the id of a letter, anything else as a call's.
func parseTarget(text string) (target, error) {
	if id, err := strconv.ParseUint(text, 10, 64); err == nil && id > 0 {
		return target{letter: id}, nil
	}
	if crumbs.CheckCallID(crumbs.CallID(text)) == nil {
		return target{call: crumbs.CallID(text)}, nil
	}
	return target{}, fault.New(fault.InvalidConfig, "%.80q: expected the id of a dead letter like 17 (crumb dead list), or of a call like RUN.1.0 (crumb watch RUN)", text)
}

// giver is who gives an order, and why.
type giver struct {
	By     string `help:"Who does this, when it is not the user of this machine." placeholder:"NAME"`
	Reason string `help:"Why; it is kept, and stands in the run's crumb." placeholder:"TEXT"`
}

func (g giver) principal() *crumbs.Principal {
	p := principal()
	if g.By != "" {
		p.Subject = g.By
	}
	return &p
}

type deadAnswerCommand struct {
	Target string `arg:"" name:"id" help:"Id of a dead letter, or of a call in flight: RUN.STEP.N."`
	Result string `help:"The outcome: JSON, @FILE, - for standard input, or a text." xor:"outcome" placeholder:"JSON|@FILE|-|TEXT"`
	Error  string `help:"The outcome is an error; TOOL_ERROR when no code is named. OUTCOME_UNKNOWN says that nobody knows." xor:"outcome" placeholder:"CODE:MESSAGE"`
	Force  bool   `help:"Also while the call's worker is present: it is interrupted."`
	giver
}

// Help says what the flags do not.
func (deadAnswerCommand) Help() string {
	return "The claim of the attempt is revoked first: a call that had not started never starts then. The run's crumb says by whom the outcome is, and why. The first outcome counts: a later one is told who was first. With --json: applied is false when the order is stored and the run takes it up next."
}

// Run supplies the outcome of a call.
func (cmd deadAnswerCommand) Run(i *invocation) error {
	t, err := parseTarget(cmd.Target)
	if err != nil {
		return err
	}
	answer := crumbs.DeadAnswer{ID: t.letter, CallID: t.call, By: cmd.principal(), Reason: cmd.Reason, Force: cmd.Force}
	switch {
	case cmd.Result != "":
		if answer.Result, err = i.readDocument("--result", cmd.Result); err != nil {
			return err
		}
	case cmd.Error != "":
		answer.Error = parseError(cmd.Error)
	default:
		return fault.New(fault.InvalidConfig, `expected an outcome: --result '{"receipt":7}' or --error 'TOOL_ERROR:the bank said no'`)
	}
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	receipt, err := mesh.AnswerCall(i.ctx, answer)
	if err != nil {
		return err
	}
	return i.told(receipt)
}

// parseError reads CODE:MESSAGE; a text without a code is the message.
func parseError(text string) *fault.Error {
	code, message, ok := strings.Cut(text, ":")
	if !ok || code != strings.ToUpper(code) || strings.ContainsAny(code, " ") {
		return fault.New(fault.ToolError, "%s", text)
	}
	return fault.New(fault.Code(code), "%s", strings.TrimSpace(message))
}

// told says what became of an order.
func (i *invocation) told(r crumbs.DeadReceipt) error {
	if i.globals.JSON {
		return i.document(r)
	}
	return i.print("%s", i.calls(receiptText(r)))
}

func receiptText(r crumbs.DeadReceipt) string {
	what := "letter " + strconv.FormatUint(r.ID, 10)
	if r.CallID != "" {
		what = "call " + string(r.CallID)
	}
	done := map[string]string{crumbs.ActAnswer: "answered", crumbs.ActRedrive: "redriven", crumbs.ActEdit: "edited", crumbs.ActClose: "closed"}[r.Act]
	text := what + ": " + done
	switch {
	case r.Already && r.At != nil && r.Act == crumbs.ActClose:
		return fmt.Sprintf("letter %d: closed before, by %s at %s; nothing was done now", r.ID, r.By, r.At.Local().Format(time.DateTime))
	case r.Already && r.At != nil && r.Act == crumbs.ActRedrive && r.Attempt > 0:
		return fmt.Sprintf("%s as attempt %d before, by %s at %s; nothing was done now", text, r.Attempt, r.By, r.At.Local().Format(time.DateTime))
	case r.Already && r.At != nil:
		return fmt.Sprintf("%s before, by %s at %s; nothing was done now", text, r.By, r.At.Local().Format(time.DateTime))
	case r.Already:
		return fmt.Sprintf("%s: run %s is there already; nothing was done now", what, r.RunID)
	case r.Act == crumbs.ActEdit:
		return fmt.Sprintf("letter %d: edited; send it with `crumb dead redrive %d`", r.Of, r.Of)
	case r.Act == crumbs.ActClose:
		return fmt.Sprintf("letter %d: closed", r.ID)
	case r.CallID == "" && r.RunID != "":
		return fmt.Sprintf("%s; follow it with `crumb watch %s`", text, r.RunID)
	case r.Act == crumbs.ActRedrive && r.Applied:
		text += " as attempt " + strconv.Itoa(r.Attempt)
	case !r.Applied && r.CallID != "":
		text += "; recorded, the run takes it up next"
	}
	return text
}
