package worker

import (
	"slices"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/secret"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/turn"
)

// masked is a result whose texts, arguments and error hold none of this process's
// secrets. Arguments are masked here, before anybody hashes or approves them:
// after this point they stay what they are.
func masked(m *secret.Masker, r crumbs.ModelResult) crumbs.ModelResult {
	if m == nil {
		return r
	}
	r.Error, r.ResponseID = m.Fault(r.Error), m.Text(r.ResponseID)
	if r.Message == nil {
		return r
	}
	message := *r.Message
	message.Parts = slices.Clone(message.Parts)
	for i := range message.Parts {
		p := &message.Parts[i]
		p.Text, p.ToolName, p.ProviderCallID = m.Text(p.Text), m.Text(p.ToolName), m.Text(p.ProviderCallID)
		p.Args, p.Raw, p.Output = m.JSON(p.Args), m.JSON(p.Raw), m.JSON(p.Output)
	}
	r.Message = &message
	return r
}

// strand names a text that comes in pieces: the answer, the reasoning, or the
// arguments of one call.
type strand struct {
	kind turn.Kind
	call int
}

// veil masks the pieces of a turn: a secret may come in two of them, so what may
// be its beginning is held back.
type veil struct {
	masker *secret.Masker
	open   []strand // in the order in which they began
	texts  map[strand]*secret.Stream
}

func newVeil(m *secret.Masker) *veil { return &veil{masker: m, texts: map[strand]*secret.Stream{}} }

// pass returns the events that may go on once e came.
func (v *veil) pass(e turn.Event) []turn.Event {
	if v.masker == nil {
		return []turn.Event{e}
	}
	switch e.Kind {
	case turn.Text, turn.Reasoning, turn.InputDelta:
		s := strand{e.Kind, e.Call}
		text, ok := v.texts[s]
		if !ok {
			text = v.masker.Stream()
			v.texts[s], v.open = text, append(v.open, s)
		}
		if e.Piece = text.Write(e.Piece); e.Piece == "" {
			return nil
		}
	case turn.InputStart:
		e.Name = v.masker.Text(e.Name)
	case turn.InputEnd:
		return append(v.end(strand{turn.InputDelta, e.Call}), e)
	}
	return []turn.Event{e}
}

// end is what was held back of a strand, now that it is whole.
func (v *veil) end(s strand) []turn.Event {
	text, ok := v.texts[s]
	if !ok {
		return nil
	}
	if piece := text.Flush(); piece != "" {
		return []turn.Event{{Kind: s.kind, Call: s.call, Piece: piece}}
	}
	return nil
}

// rest is what was held back of all of them.
func (v *veil) rest() []turn.Event {
	var out []turn.Event
	for _, s := range v.open {
		out = append(out, v.end(s)...)
	}
	return out
}
