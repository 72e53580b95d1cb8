package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/render"
	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/terminal"
	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

// interrupted is why a run was cancelled whose command a person interrupted.
const interrupted = "interrupted at the command line"

type runCommand struct {
	Agent  string `arg:"" help:"Id of the agent."`
	Input  string `help:"Input: JSON, @FILE, - for standard input, or a text. What begins with { or [ must be JSON." placeholder:"JSON|@FILE|-|TEXT"`
	RunID  string `name:"run-id" help:"Id of the run, also its idempotency key: the same id and request start one run." placeholder:"ID"`
	Detach bool   `help:"Print the run's id and do not follow it."`
}

// Help says what the flags do not.
func (runCommand) Help() string {
	return "The id of the run and its crumbs go to standard error, as they happen, the output to standard output. On a terminal approvals and questions are asked, unless NATS lets this role only start runs; then, and elsewhere, the command ends with status 3 and prints how to answer. Interrupting it cancels the run and waits for its end; interrupting it again leaves the run to itself. With --detach nothing is waited for, and `crumb watch` follows without cancelling."
}

// Run starts the run and follows it.
func (cmd runCommand) Run(i *invocation) error {
	request := client.Request{Agent: crumbs.AgentID(cmd.Agent), RunID: crumbs.RunID(cmd.RunID)}
	if cmd.Input != "" {
		input, err := i.readDocument("--input", cmd.Input)
		if err != nil {
			return err
		}
		request.Input = input
	}
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	run, err := mesh.Start(i.ctx, request)
	if fault.CodeOf(err) == fault.Unavailable {
		i.say("crumb: the request may have arrived; `--run-id %s` repeats it without a second run", run.ID)
	}
	if err != nil {
		return err
	}
	if cmd.Detach {
		if i.globals.JSON {
			return i.document(crumbs.RunStartReply{RunID: run.ID, AgentID: run.Agent, Created: run.Created})
		}
		return i.print("%s", run.ID)
	}
	i.announce(run)
	talk := i.conversation(mesh)
	talk.print, talk.cancels = i.printer(i.std.Err).item, true
	if i.std.Interactive() && i.mayAnswer() {
		talk.lines = terminal.NewLines(i.std.In)
	}
	return i.follow(mesh, run, talk)
}

// announce says which run is followed, so that other commands can be asked about it
// while it runs and after it failed. In a document every crumb says it.
func (i *invocation) announce(run client.Run) {
	switch {
	case !run.Created:
		i.say("crumb: run %s was started before; following it", run.ID)
	case !i.globals.JSON:
		i.say("crumb: run %s; `%s explain %s` says where it stands", run.ID, i.self(), run.ID)
	}
}

// conversation returns one in which nobody is asked yet.
func (i *invocation) conversation(mesh *client.Client) *conversation {
	return &conversation{inv: i, answer: func(ctx context.Context, checkpoint crumbs.CheckpointID, a client.Answer) error {
		_, err := mesh.Resume(ctx, checkpoint, a)
		return err
	}}
}

// follow talks until the run ends or is left waiting, and gives the status.
func (i *invocation) follow(mesh *client.Client, run client.Run, talk *conversation) error {
	end, err := talk.run(i.ctx, mesh.Follow(i.ctx, run.ID, client.Started(run.Agent)))
	if errors.Is(err, context.Canceled) {
		i.say("")
		if talk.cancels {
			return i.cancelRun(mesh, run, end, talk)
		}
		return i.leave(run)
	}
	if err != nil {
		return err
	}
	return i.conclude(run.ID, end)
}

// cancelRun cancels a run whose command was interrupted, and follows it to its end
// without asking anybody more. A second interruption ends the process: main sees to it.
func (i *invocation) cancelRun(mesh *client.Client, run client.Run, end ending, talk *conversation) error {
	i.say("crumb: cancelling run %s; interrupt again to leave it to itself", run.ID)
	ctx := context.WithoutCancel(i.ctx)
	if _, err := mesh.Cancel(ctx, run.ID, interrupted); err != nil {
		i.warn(err)
		return i.leave(run)
	}
	for item, err := range mesh.Follow(ctx, run.ID, client.Started(run.Agent), client.After(end.last.Seq)) {
		if err == nil {
			err = talk.print(item)
		}
		if err == nil {
			err = end.take(item)
		}
		if err != nil {
			return err
		}
	}
	return i.conclude(run.ID, end)
}

// leave says how to go on with a run that this command has to do with no longer.
func (i *invocation) leave(run client.Run) error {
	i.say("crumb: no longer following; the run goes on: `%s watch %s`, `%s runs cancel %s`", i.self(), run.ID, i.self(), run.ID)
	return ended(statusFailed)
}

// conclude prints a run's output, or how to answer what it waits for.
func (i *invocation) conclude(run crumbs.RunID, end ending) error {
	switch end.last.Type {
	case crumbs.TypeRunEnded:
		var c crumbs.RunEnded
		if err := end.last.Decode(&c); err != nil {
			return err
		}
		if i.globals.JSON {
			return nil
		}
		return i.printer(i.std.Out).output(c)
	case crumbs.TypeAgentError:
		var c crumbs.AgentError
		if err := end.last.Decode(&c); err != nil {
			return err
		}
		if end.last.Seq == 1 { // refused: it never ran
			return ended(statusOf(c.Error.Code))
		}
		return ended(statusFailed)
	}
	return i.waits(run, end)
}

// waits says how to answer what a run waits for.
func (i *invocation) waits(run crumbs.RunID, end ending) error {
	who := ""
	if !i.mayAnswer() {
		who = " who has the approver's key"
	}
	i.say("\n%s waits for a person%s:", run, who)
	for _, q := range end.open {
		i.say("  %s", i.howToAnswer(q))
	}
	i.say("then follow it with `%s watch %s`, which ends with the run; with --until-suspended also when it waits again", i.self(), run)
	return ended(statusSuspended)
}

// howToAnswer is the command that answers a question, and what is asked.
func (i *invocation) howToAnswer(q question) string {
	what := render.OneLine(q.ToolName) + " " + render.Value(q.Args)
	if q.Prompt != "" {
		what += ": " + render.Clip(q.Prompt)
	}
	if q.Kind == crumbs.KindApproval {
		return fmt.Sprintf("%s approvals approve %s     # or reject: %s", i.as(access.RoleApprover), q.CheckpointID, what)
	}
	return fmt.Sprintf("%s approvals answer %s VALUE   # %s; takes %s", i.as(access.RoleApprover), q.CheckpointID, what, render.Answer(q.AnswerSchema))
}

// warn prints what went wrong without ending the command.
func (i *invocation) warn(err error) {
	_, lines := explain(err)
	for _, line := range lines {
		i.say("crumb: %s", render.OneLine(line))
	}
}
