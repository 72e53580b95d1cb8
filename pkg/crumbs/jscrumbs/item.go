package jscrumbs

import (
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Item is one crumb or delta as Follow hands it on: what every crumb has,
// decoded, and the body as it is stored.
type Item struct {
	crumbs.Base

	// Raw is the body exactly as it was stored; of a claim check, the whole body.
	Raw json.RawMessage

	// Delta says that the item is a delta: Seq is then the number of the crumb it
	// follows, and Attempt and Index order it inside its call. A partial result that
	// its tool keeps (`keepPartials`) is a crumb and has them too.
	Delta   bool
	Attempt int
	Index   int

	// DeltasMissing is how many deltas of the call that this crumb closes were not
	// seen: lost, too old, or late by more than DeltaWait. The crumb has the whole.
	DeltasMissing int

	// Pending is how many crumbs of what is followed were stored behind this one
	// when the server sent it: 0 on the last.
	Pending uint64

	call   call // that the delta belongs to or the crumb closes
	closes int  // attempt of a tool call whose deltas the closing crumb counts; 0: it does not say
	deltas int  // that the closing crumb counts
	kept   bool // a partial result that its call keeps: a crumb of what may have been a delta before
}

// Decode reads the whole body into a struct of pkg/crumbs. It fails with
// INVALID_MESSAGE.
func (i Item) Decode(into any) error { return crumbs.Decode(i.Type, i.Raw, into) }

// call names what a delta belongs to: one attempt of a step's model call, or a
// tool call with all its attempts, since one crumb closes them all.
type call struct {
	step, attempt int
	tool          crumbs.CallID
}

func (i Item) piece() piece { return piece{i.call, i.Attempt, i.Index} }

// content are the fields Follow reads of any body.
type content struct {
	crumbs.Base
	ToolCallID crumbs.CallID `json:"toolCallId"`
	Attempt    int           `json:"attempt"`
	Index      int           `json:"index"`
	Deltas     int           `json:"deltas"`
}

// Places of the run in `crumb.<agent>.<run>.<type>`, and of the group in
// `delta.<agent>.<run>.tool.partial.<group>`.
const (
	tokenRun   = 2
	tokenGroup = 5
)

// readItem reads a body that stood on a subject. It returns INVALID_MESSAGE when
// it is not JSON, or is not of the run, agent or kind the subject says: who may
// write one subject may not speak for another.
func readItem(subject string, body json.RawMessage) (Item, error) {
	var c content
	if err := json.Unmarshal(body, &c); err != nil {
		return Item{}, fault.Wrap(fault.InvalidMessage, err, "%s: the body is not a crumb", subject)
	}
	item := Item{Base: c.Base, Raw: body}
	want := ""
	switch c.Type {
	case crumbs.TypeTextDelta, crumbs.TypeReasoningDelta, crumbs.TypeInputStart, crumbs.TypeInputDelta, crumbs.TypeInputEnd:
		item.Delta, item.call = true, call{step: c.Step, attempt: c.Attempt}
		want = crumbs.ModelDeltaSubject(c.AgentID, c.RunID, c.Type)
	case crumbs.TypeResultPartial:
		item.call, item.Attempt, item.Index = call{tool: c.ToolCallID}, c.Attempt, c.Index
		if want = crumbs.CrumbSubject(c.AgentID, c.RunID, c.Type); subject == want {
			item.kept = true
			break
		}
		item.Delta = true
		want = crumbs.PartialSubject(c.AgentID, c.RunID, crumbs.Token(subject, tokenGroup))
	case crumbs.TypeStepEnd:
		item.call, item.deltas = call{step: c.Step, attempt: c.Attempt}, c.Deltas
		want = crumbs.CrumbSubject(c.AgentID, c.RunID, c.Type)
	case crumbs.TypeToolResulted, crumbs.TypeToolErrored:
		item.call, item.closes, item.deltas = call{tool: c.ToolCallID}, c.Attempt, c.Deltas
		want = crumbs.CrumbSubject(c.AgentID, c.RunID, c.Type)
	default:
		want = crumbs.CrumbSubject(c.AgentID, c.RunID, c.Type)
	}
	if item.Delta {
		item.Attempt, item.Index = c.Attempt, c.Index
	}
	if subject != want || c.Index < 0 || item.call.tool != "" && item.call.tool.Run() != c.RunID {
		return Item{}, fault.New(fault.InvalidMessage, "%s: the body says that it is %s %d of run %s", subject, c.Type, c.Seq, c.RunID)
	}
	return item, nil
}
