package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/render"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

type deadEditCommand struct {
	ID   uint64 `arg:"" help:"Id of the letter (crumb dead list)."`
	File string `help:"The new body, - for standard input; without it, on a terminal, $VISUAL or $EDITOR opens." placeholder:"FILE|-"`
	giver
}

// Help says what the flags do not.
func (deadEditCommand) Help() string {
	return "The letter stays as it is, and keeps its id: redriving it sends the body as it was edited last, also when it was redriven before. With --json the edited one has an id of its own, which `show` and `redrive` take too. Only requests and controls can be edited: a call is sent as its run has it, a decision is signed."
}

// Run stores another body for a letter.
func (cmd deadEditCommand) Run(i *invocation) error {
	if cmd.File == "" && !i.std.Interactive() {
		return fault.New(fault.InvalidConfig, "this is no terminal: pass the new body with --file FILE, or - for standard input")
	}
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	var body json.RawMessage
	if cmd.File != "" {
		source := cmd.File
		if source != "-" {
			source = "@" + source
		}
		body, err = i.readDocument("--file", source)
	} else {
		var l crumbs.DeadLetter
		if l, err = mesh.DeadLetter(i.ctx, cmd.ID); err != nil {
			return err
		}
		body, err = i.editBody(l)
	}
	if err != nil {
		return err
	}
	if body == nil {
		return i.print("letter %d: nothing was changed", cmd.ID)
	}
	receipt, err := mesh.EditDead(i.ctx, crumbs.DeadEdit{ID: cmd.ID, Body: body, By: cmd.principal(), Reason: cmd.Reason})
	if err != nil {
		return err
	}
	return i.told(receipt)
}

// editBody opens the body of a letter in the person's editor; nil when they left it
// as it was.
func (i *invocation) editBody(l crumbs.DeadLetter) (json.RawMessage, error) {
	editor := ""
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if v, ok := i.std.Env(name); ok && v != "" && editor == "" {
			editor = v
		}
	}
	if editor == "" {
		return nil, fault.New(fault.InvalidConfig, "neither VISUAL nor EDITOR names an editor; set one, or pass the new body with --file")
	}
	folder, err := os.MkdirTemp("", "crumb-dead-")
	if err != nil {
		return nil, unreadable("edit", "a temporary folder", err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // what stays is removed with the system's temporary files
	file := filepath.Join(folder, "body.json")
	before := l.Raw
	if l.Body != nil {
		before = []byte(render.Document(l.Body, "") + "\n")
	}
	if err := os.WriteFile(file, before, 0o600); err != nil {
		return nil, unreadable("edit", file, err)
	}
	shell := exec.CommandContext(i.ctx, "/bin/sh", "-c", editor+` "$1"`, "sh", file) // an editor may come with flags
	shell.Stdin, shell.Stdout, shell.Stderr = i.std.In, i.std.Out, i.std.Err
	if err := shell.Run(); err != nil {
		return nil, fault.Wrap(fault.InvalidConfig, err, "the editor %q failed: %v; the letter is as it was", editor, err)
	}
	after, err := readFile(file)
	if err != nil {
		return nil, unreadable("edit", file, err)
	}
	if bytes.Equal(before, []byte(after)) {
		return nil, nil
	}
	return document(after)
}
