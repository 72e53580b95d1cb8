package cli

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/render"
	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/terminal"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs/jscrumbs"
)

// printer writes crumbs: their bodies as they are, or a line each.
type printer struct {
	inv   *invocation
	lines io.Writer // of the lines; bodies always go to standard output
	style terminal.Style
	runs  bool // name the run on each line
}

// printer returns one whose lines go to w.
func (i *invocation) printer(w io.Writer) printer {
	return printer{inv: i, lines: w, style: i.std.StyleOf(w)}
}

func (p printer) item(item jscrumbs.Item) error {
	if item.DeltasMissing > 0 {
		p.inv.say("crumb: %d deltas before crumb %d were lost; the crumb has the whole", item.DeltasMissing, item.Seq)
	}
	if p.inv.globals.JSON {
		return p.body(item.Raw)
	}
	l := render.Crumb(item.Raw)
	text := l.String()
	if p.runs {
		text = render.OneLine(string(l.Run)) + " " + text
	}
	return writeLine(p.lines, "%s", p.style.Crumb(l.Type, text))
}

// body writes a body as it is stored, on one line. A terminal gets the same
// document without characters that would fool who reads it.
func (p printer) body(raw json.RawMessage) error {
	if bytes.ContainsAny(raw, "\r\n") {
		var b bytes.Buffer
		if err := json.Compact(&b, raw); err == nil {
			raw = b.Bytes()
		}
	}
	if terminal.IsTerminal(p.inv.std.Out) {
		raw = json.RawMessage(render.JSON(raw))
	}
	_, err := p.inv.std.Out.Write(append(bytes.Clone(raw), '\n'))
	return written(err)
}

// output writes what a run answered: a text as it is, anything else as JSON. A
// terminal gets no control characters.
func (p printer) output(c crumbs.RunEnded) error {
	var text string
	if json.Unmarshal(c.Output, &text) != nil {
		text = render.JSON(c.Output)
	}
	if terminal.IsTerminal(p.inv.std.Out) {
		text = render.Plain(text)
	}
	return p.inv.print("%s", text)
}
