package turn

import (
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/prompt"
)

// Request asks an adapter for one turn. It must not be changed.
type Request struct {
	// Call is what the orchestrator asked for, with the whole transcript in
	// Messages as it was written. No adapter sends these to a provider. It has no
	// Tools when the answer is Structured.
	Call crumbs.ModelCall
	// Prompt is what a model is shown: all of it, in this order.
	Prompt prompt.Prompt
}

// Structured reports whether the answer of a call is to be one JSON document, of the
// schema in its Output: without tools, and its text not streamed.
func Structured(c crumbs.ModelCall) bool {
	return c.Output != nil && c.Output.Format == formatJSON
}

// formatJSON is crumbs.ModelOutput.Format of a structured answer.
const formatJSON = "json"

// Options are the provider options of a call under the key of the provider's kind,
// as providers take them; nil when there are none.
func (r Request) Options(kind string) map[string]json.RawMessage {
	if len(r.Call.ProviderOptions) == 0 {
		return nil
	}
	return map[string]json.RawMessage{kind: r.Call.ProviderOptions}
}
