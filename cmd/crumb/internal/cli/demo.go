package cli

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/local"
	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/terminal"
	"github.com/crumbmesh/crumbmesh/examples/publisher"
	"github.com/crumbmesh/crumbmesh/examples/publisher/worker"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

type demoCommand struct {
	Yes   bool   `help:"Approve, and take the drafted headline, without asking."`
	Input string `help:"Document to publish (README.md)." default:"README.md" placeholder:"PATH"`
	Out   string `help:"Folder for published.md (the demo's own)." placeholder:"DIR"`
}

// Help says what the flags do not.
func (demoCommand) Help() string {
	return "Runs the example publisher on a mesh inside this process: no network, no LLM. It reads the document, counts its words with a shell script, and asks you before it publishes."
}

// Folders of a demo.
const (
	demoProject = "project"
	demoStore   = "store"
)

// demoProjectFile is the project file of the demo's copy: its Go tools run inside
// the demo, so there is no command to start.
const demoProjectFile = `# Written by ` + "`crumb demo`" + `, which serves the tools of group demo itself.
agents: [publisher]
groups:
  demo: {}
  scripts: {}
`

// demo is one demo: its folders and what is published.
type demo struct {
	folder   string // holds all that the demo writes, but for --out
	out      string
	document string // name of the copy in the project's folder
}

// Run runs the example. Nothing is written when nobody can be asked.
func (cmd demoCommand) Run(i *invocation) error {
	if !cmd.Yes && !i.std.Interactive() {
		return fault.New(fault.InvalidConfig, "the demo asks before it publishes, and standard input or standard error is no terminal: run it on a terminal, or approve now with `crumb demo --yes`")
	}
	d, err := cmd.prepare()
	if err != nil {
		return err
	}
	mesh, err := local.Start(i.ctx, local.Config{
		Store: filepath.Join(d.folder, demoStore), Log: i.log(),
		Tools: map[string][]tool.Tool{publisher.Group: worker.Folder{Documents: d.project(), Published: d.out}.Tools()},
	})
	if err != nil {
		return err
	}
	defer mesh.Stop()
	project, err := agent.Load(d.project())
	if err != nil {
		return err
	}
	if _, err := mesh.Serve(i.ctx, project); err != nil {
		return err
	}
	return cmd.publish(i, mesh, d)
}

// publish runs the agent and says where everything is.
func (cmd demoCommand) publish(i *invocation, mesh *local.Mesh, d demo) error {
	input, err := json.Marshal(worker.Selection{Path: d.document})
	if err != nil {
		return fault.From(err)
	}
	run, err := mesh.Client.Start(i.ctx, client.Request{Agent: publisher.Agent, Input: json.RawMessage(input)})
	if err != nil {
		return err
	}
	i.say("%s", cmd.outlook())
	talk := i.conversation(mesh.Client)
	talk.print = i.printer(i.std.Out).item
	if cmd.Yes {
		talk.auto = takeDraft
	} else {
		talk.lines = terminal.NewLines(i.std.In)
	}
	err = i.follow(mesh.Client, run, talk)
	d.whereabouts(i, run.ID)
	return err
}

// outlook says what comes. The agent asks both questions in one turn, with the
// title it has by then, so the headline is not what is published.
func (cmd demoCommand) outlook() string {
	who := "you are asked"
	if cmd.Yes {
		who = "--yes answers for you"
	}
	return "The agent reads the document and counts its words. Then " + who + " two things at once: whether it may publish the document under its own title, and for a headline, which stands in the crumbs of the run (the call to publish was asked for beside it, so the title stays)."
}

// takeDraft approves, and answers a question with the draft it came with.
func takeDraft(q question) client.Answer {
	if q.Kind == crumbs.KindApproval {
		return client.Answer{Outcome: crumbs.DecideApprove}
	}
	var args struct {
		Draft string `json:"draft"`
	}
	_ = json.Unmarshal(q.Args, &args) // a question without a draft is answered with an empty text
	return client.Answer{Outcome: crumbs.DecideAnswer, Value: quoted(args.Draft)}
}

func (d demo) project() string { return filepath.Join(d.folder, demoProject) }

// whereabouts says where everything is and how to look closer.
func (d demo) whereabouts(i *invocation, run crumbs.RunID) {
	if _, err := os.Stat(filepath.Join(d.out, worker.PublishedFile)); err == nil {
		i.say("published  %s", filepath.Join(d.out, worker.PublishedFile))
	}
	store := filepath.Join(d.folder, demoStore)
	i.say("crumbs     %s", store)
	i.say("agent      %s", filepath.Join(d.project(), "agents", publisher.Agent))
	i.say("closer     crumb dev %s --store %s   and there: crumb watch %s", d.project(), store, run)
}

// prepare makes the demo's folders.
func (cmd demoCommand) prepare() (d demo, err error) {
	info, err := os.Stat(cmd.Input)
	if err != nil || !info.Mode().IsRegular() {
		return d, fault.Wrap(fault.InvalidConfig, err, "--input: expected a document to publish, and %s is no file here; name one with `crumb demo --input PATH`", cmd.Input)
	}
	if info.Size() > documentMax {
		return d, fault.New(fault.InvalidConfig, "--input: %s has %d bytes, expected at most %d", cmd.Input, info.Size(), documentMax)
	}
	if cmd.Out != "" {
		if info, err := os.Stat(cmd.Out); err != nil || !info.IsDir() {
			return d, fault.Wrap(fault.InvalidConfig, err, "--out: expected a folder, and %s is none", cmd.Out)
		}
	}
	folder, err := os.MkdirTemp("", "crumb-demo-")
	if err != nil {
		return d, unwritable(err)
	}
	d = demo{folder: folder, out: folder, document: filepath.Base(cmd.Input)}
	if cmd.Out != "" {
		d.out = cmd.Out
	}
	return d, d.write(cmd.Input)
}

// write writes the project and copies the document beside it: the tools see
// nothing else of this machine.
func (d demo) write(document string) error {
	files := publisher.Files()
	agents, err := fs.Sub(files, "agents")
	if err != nil {
		return fault.From(err)
	}
	err = errors.Join(
		os.CopyFS(filepath.Join(d.project(), "agents"), agents),
		os.WriteFile(filepath.Join(d.project(), "crumb.yaml"), []byte(demoProjectFile), 0o600),
		copyFile(document, filepath.Join(d.project(), d.document)),
	)
	if err != nil {
		return unwritable(err)
	}
	return nil
}

// copyFile copies a file to a new one; a document named like a file of the
// project is refused.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func unwritable(err error) error {
	return fault.Wrap(fault.InvalidConfig, err, "the demo's folder cannot be written: %v", err)
}
