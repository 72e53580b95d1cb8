package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/render"
	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/terminal"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// The exit statuses.
const (
	statusCompleted = 0
	statusFailed    = 1
	statusUsage     = 2
	statusSuspended = 3
)

// ended is an exit status whose reason was printed already.
type ended int

// Error makes ended an error, so that a command can return it.
func (e ended) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// invocation is what every command gets: its streams, the global flags, and the
// way to the mesh.
type invocation struct {
	ctx     context.Context
	std     terminal.Stdio
	globals *globals

	connection []flagWord // of the command line
	refused    bool       // an answer of this command was: its role may not give any
}

// connect reaches the mesh named by the global flags.
func (i *invocation) connect() (*client.Client, error) {
	return client.Connect(i.ctx, client.Config{Server: i.globals.Server, Access: i.globals.access(), Name: "crumb"})
}

// report prints what a command returned and gives its exit status.
func (i *invocation) report(err error) int {
	var e ended
	switch {
	case err == nil:
		return statusCompleted
	case errors.As(err, &e):
		return int(e)
	}
	f, lines := explain(err)
	if i.globals.JSON {
		if err := i.document(map[string]any{"error": f}); err == nil {
			return statusOf(f.Code)
		}
	}
	style := i.std.StyleOf(i.std.Err)
	for _, line := range lines {
		i.say("%s %s", style.Bad("crumb:"), i.calls(render.OneLine(line)))
	}
	return statusOf(f.Code)
}

// explain is an error as one fault and as lines for people. What is no fault
// comes from this process itself, so its text may be shown.
func explain(err error) (*fault.Error, []string) {
	var many agent.Faults
	if errors.As(err, &many) {
		lines := make([]string, len(many))
		for n, one := range many {
			lines[n] = one.Error()
		}
		return fault.New(many[0].Err.Code, "%s", many.Error()).With("faults", many), lines
	}
	var f *fault.Error
	if errors.As(err, &f) {
		line := f.Error()
		if f.RetryAfterMs > 0 {
			line += " (in " + render.Duration(f.RetryAfterMs) + ")"
		}
		return f, []string{line}
	}
	return fault.New(fault.InternalError, "%s", err), []string{err.Error()}
}

// statusOf is the exit status of a command that a fault ended before anything
// was started: what the caller wrote is a usage error, the rest a failure.
func statusOf(code fault.Code) int {
	switch code {
	case fault.InvalidPermission, fault.InvalidName, fault.InvalidConfig, fault.InvalidInput, fault.InvalidArguments, fault.DecisionInvalid,
		fault.NotAvailable, fault.ToolNameCollision, fault.ToolGroupUnknown, fault.UnknownProvider:
		return statusUsage
	}
	return statusFailed
}

// document writes one JSON document on one line of standard output, readable
// where its bodies were escaped for HTML and harmless to a terminal.
func (i *invocation) document(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fault.From(err)
	}
	_, err = io.WriteString(i.std.Out, render.JSON(raw)+"\n")
	return written(err)
}

// show writes one document: on one line with --json, else indented for people.
func (i *invocation) show(v any) error {
	if i.globals.JSON {
		return i.document(v)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fault.From(err)
	}
	return i.print("%s", render.Document(raw, ""))
}

// print writes a line to standard output.
func (i *invocation) print(format string, args ...any) error {
	return writeLine(i.std.Out, format, args...)
}

// say writes a line to standard error: progress, warnings, hints. Where nobody
// reads them nothing is lost.
func (i *invocation) say(format string, args ...any) {
	_ = writeLine(i.std.Err, format, args...)
}

func writeLine(w io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintf(w, format+"\n", args...)
	return written(err)
}

func written(err error) error {
	if err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}
