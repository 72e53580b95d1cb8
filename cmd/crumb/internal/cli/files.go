package cli

import (
	"os"
	"unicode/utf8"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/render"
	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/terminal"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

type filesCommand struct {
	Get filesGetCommand `cmd:"" help:"Print a file, or write it to disk."`
}

type filesGetCommand struct {
	URI    string `arg:"" name:"uri" help:"URI of the file, as crumbs and results name it: files:…"`
	Output string `short:"o" help:"Write it here instead of to standard output. What was there is replaced." type:"path" placeholder:"FILE"`
}

// Help says what the flags do not.
func (filesGetCommand) Help() string {
	return "The bytes are those that were stored: they are compared with the hash in the URI. A terminal is shown a text without control characters and no binary file. Files are kept as long as blobs (docs/retention.md)."
}

// fileMode is for who asked: what a run stored is nobody else's.
const fileMode = 0o600

// filed is a file that was written to disk, as a document.
type filed struct {
	URI   string `json:"uri"`
	File  string `json:"file"`
	Bytes int    `json:"bytes"`
}

// Run fetches the file, whole, before anything is written.
func (cmd filesGetCommand) Run(i *invocation) error {
	if i.globals.JSON && cmd.Output == "" {
		return fault.New(fault.InvalidConfig, "with --json standard output has JSON documents only: say with --output FILE where the file goes")
	}
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	data, err := mesh.File(i.ctx, cmd.URI)
	if err != nil {
		return err
	}
	if cmd.Output == "" {
		return i.bytes(data)
	}
	if err := os.WriteFile(cmd.Output, data, fileMode); err != nil {
		return fault.Wrap(fault.InvalidConfig, err, "--output: cannot write %s: %v", cmd.Output, err)
	}
	if i.globals.JSON {
		return i.document(filed{URI: cmd.URI, File: cmd.Output, Bytes: len(data)})
	}
	i.say("%s: %d bytes", cmd.Output, len(data))
	return nil
}

// bytes writes data as it is to standard output, to a terminal as text that cannot
// fool who reads it.
func (i *invocation) bytes(data []byte) error {
	if terminal.IsTerminal(i.std.Out) {
		if !utf8.Valid(data) {
			return fault.New(fault.InvalidConfig, "the file is binary (%d bytes), which a terminal does not show: say with --output FILE where it goes, or redirect standard output", len(data))
		}
		data = []byte(render.Plain(string(data)))
	}
	_, err := i.std.Out.Write(data)
	return written(err)
}
