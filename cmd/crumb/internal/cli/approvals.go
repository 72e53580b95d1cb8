package cli

import (
	"time"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/render"
	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

type approvalsCommand struct {
	Serve   approvalsServeCommand   `cmd:"" default:"withargs" help:"Run the service that keeps questions and signs answers (what crumb approvals alone does)."`
	Key     approvalsKeyCommand     `cmd:"" help:"Show the public key of a signing key, and make the key when its file is not there. Needs no connection."`
	List    approvalsListCommand    `cmd:"" help:"List questions, the oldest first."`
	Show    approvalsShowCommand    `cmd:"" help:"Show a question whole."`
	Approve approvalsApproveCommand `cmd:"" help:"Approve a call, as asked or with other arguments."`
	Reject  approvalsRejectCommand  `cmd:"" help:"Reject a call or a question."`
	Answer  approvalsAnswerCommand  `cmd:"" help:"Answer a question with a value."`
}

type approvalsListCommand struct {
	Status string `help:"open, decided, applied, expired, withdrawn or all." enum:"open,decided,applied,expired,withdrawn,all" default:"open"`
	RunID  string `name:"run" help:"Of one run." placeholder:"RUN"`
	Limit  int    `help:"At most so many." placeholder:"N"`
}

// Run prints the questions.
func (cmd approvalsListCommand) Run(i *invocation) error {
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	query := decision.Query{Status: decision.Status(cmd.Status), RunID: crumbs.RunID(cmd.RunID), Limit: cmd.Limit}
	if cmd.Status == "all" {
		query.Status = ""
	}
	page, err := mesh.Approvals(i.ctx, query)
	if err != nil {
		return err
	}
	table := render.Table{Header: []string{"CHECKPOINT", "STATUS", "KIND", "TOOL", "ARGUMENTS", "PROMPT", "TAKES"}}
	for _, a := range page.Approvals {
		if i.globals.JSON {
			if err := i.document(a); err != nil {
				return err
			}
			continue
		}
		var q question
		if a.Checkpoint != nil {
			q = *a.Checkpoint
		}
		table.Add(string(a.CheckpointID), string(a.Status), q.Kind, q.ToolName, render.Value(q.Args), q.Prompt, takes(q))
	}
	if page.Truncated {
		i.say("crumb: there are more; narrow the list with --run or raise --limit")
	}
	if !i.globals.JSON && len(page.Approvals) == 0 {
		i.say("no questions")
	}
	return table.Write(i.std.Out)
}

// takes says which answers a question takes, "" where that is not known.
func takes(q question) string {
	switch {
	case q.Kind == "" || q.DataRef != nil: // the question itself is elsewhere
		return ""
	case q.Kind == crumbs.KindApproval:
		return "approve or reject"
	}
	return render.Answer(q.AnswerSchema)
}

// checkpoint is the argument of the commands on one question.
type checkpoint struct {
	Checkpoint string `arg:"" help:"Id of the question (crumb approvals list)."`
}

type approvalsShowCommand struct {
	checkpoint
}

// Run prints one question.
func (cmd approvalsShowCommand) Run(i *invocation) error {
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	a, err := mesh.Approval(i.ctx, crumbs.CheckpointID(cmd.Checkpoint))
	if err != nil {
		return err
	}
	if err := i.show(a); err != nil || i.globals.JSON || a.Status != decision.StatusOpen || a.Checkpoint == nil {
		return err
	}
	i.say("answer it with")
	i.say("  %s", i.howToAnswer(*a.Checkpoint))
	return nil
}

type approvalsApproveCommand struct {
	checkpoint
	Args   string `help:"Other arguments for the call: JSON or @FILE; checked against the tool's schema." placeholder:"JSON|@FILE"`
	Reason string `help:"Why." placeholder:"TEXT"`
}

// Run approves.
func (cmd approvalsApproveCommand) Run(i *invocation) error {
	a := client.Answer{Outcome: crumbs.DecideApprove, Reason: cmd.Reason}
	if cmd.Args != "" {
		args, err := i.readDocument("--args", cmd.Args)
		if err != nil {
			return err
		}
		if args[0] != '{' {
			return fault.New(fault.InvalidConfig, `--args: expected a JSON object like {"title":"…"} or @FILE with one`)
		}
		a.Args = args
	}
	return i.decide(cmd.Checkpoint, a)
}

type approvalsRejectCommand struct {
	checkpoint
	Reason string `help:"Why; the model reads it." placeholder:"TEXT"`
}

// decideHelp is what the flags of the deciding commands do not say.
const decideHelp = "The first answer wins; the same one again from the same person changes nothing. With --json: status is decided when the answer is recorded and cannot be lost, applied once the run went on with it (applied is then true); decision says by whom and when it was given."

// Help says what the flags do not.
func (approvalsApproveCommand) Help() string { return decideHelp }

// Help says what the flags do not.
func (approvalsRejectCommand) Help() string { return decideHelp }

// Help says what the flags do not.
func (approvalsAnswerCommand) Help() string { return decideHelp }

// Run rejects.
func (cmd approvalsRejectCommand) Run(i *invocation) error {
	return i.decide(cmd.Checkpoint, client.Answer{Outcome: crumbs.DecideReject, Reason: cmd.Reason})
}

type approvalsAnswerCommand struct {
	checkpoint
	Value  string `arg:"" help:"JSON if it is JSON, else a text; what begins with { or [ must be JSON; @FILE and - are read. A value that begins with a dash goes behind --."`
	Reason string `help:"Why." placeholder:"TEXT"`
}

// Run answers with a value. Approvals are not answered this way: the mesh
// refuses a value for them.
func (cmd approvalsAnswerCommand) Run(i *invocation) error {
	value, err := i.readDocument("VALUE", cmd.Value)
	if err != nil {
		return err
	}
	return i.decide(cmd.Checkpoint, client.Answer{Outcome: crumbs.DecideAnswer, Value: value, Reason: cmd.Reason})
}

// decide sends an answer and says what became of it.
func (i *invocation) decide(id string, a client.Answer) error {
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	a.By, a.Via = principal(), decision.ViaCLI
	receipt, err := mesh.Resume(i.ctx, crumbs.CheckpointID(id), a)
	if err != nil {
		return err
	}
	if i.globals.JSON {
		return i.document(receipt)
	}
	word := map[string]string{crumbs.DecideApprove: "approved", crumbs.DecideReject: "rejected", crumbs.DecideAnswer: "answered"}[a.Outcome]
	then := "recorded; the run takes it up next"
	if receipt.Applied {
		then = "the run went on with it"
	}
	d := receipt.Decision
	return i.print("%s: %s by %s at %s; %s", id, word, render.Principal(d.By), d.At.Local().Format(time.DateTime), then)
}
