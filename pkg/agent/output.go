package agent

import (
	"encoding/json"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// Formats of an agent's output. Text and markdown are the same to the mesh.
const (
	FormatText     = "text"
	FormatMarkdown = "markdown"
	FormatJSON     = "json"   // structured generation, without tools
	FormatCustom   = "custom" // text that a parser turns into a value
)

// Output is the shape of an agent's answer.
type Output struct {
	Format string        `json:"format"`
	Repair int           `json:"repair,omitempty"` // json: how often the model is asked to mend an answer that does not fit
	Custom *CustomFormat `json:"custom,omitempty"` // of FormatCustom
}

// CustomFormat names the parser that turns what the model said into the output:
// one that a worker of Group announced, or the command Exec.
type CustomFormat struct {
	Name      string   `json:"name"`
	Group     string   `json:"group"`
	Exec      []string `json:"exec,omitempty"` // a ParseInput on stdin, the output on stdout; in the agent's folder
	TimeoutMs int64    `json:"timeoutMs,omitempty"`
}

// announcement is what the worker that serves the command announces.
func (f CustomFormat) announcement(id crumbs.AgentID) Announcement {
	return Announcement{
		Kind: AnnouncedParse, Group: f.Group, Handler: string(id) + "/parse-" + f.Name, TimeoutMs: f.TimeoutMs,
		Digest: fingerprint(f.Exec, shortHash),
	}.filled()
}

// formDepthMax bounds how far a schema's references and forms are followed.
const formDepthMax = 32

// onlyTexts reports whether a JSON Schema lets nothing through but strings.
func onlyTexts(raw json.RawMessage) bool {
	var root any
	return json.Unmarshal(raw, &root) == nil && textForm{root}.only(root, 0)
}

// textForm looks at a schema of which root is the document.
type textForm struct{ root any }

func (f textForm) only(schema any, depth int) bool {
	s, ok := schema.(map[string]any)
	if !ok || depth > formDepthMax {
		return false
	}
	switch t := s["type"].(type) {
	case string:
		if t == "string" {
			return true
		}
	case []any:
		if len(t) == 1 && t[0] == "string" {
			return true
		}
	}
	if _, text := s["const"].(string); text {
		return true
	}
	if values, ok := s["enum"].([]any); ok && texts(values) {
		return true
	}
	if ref, ok := s["$ref"].(string); ok && f.only(f.find(ref), depth+1) {
		return true
	}
	if all, ok := s["allOf"].([]any); ok {
		for _, one := range all {
			if f.only(one, depth+1) {
				return true
			}
		}
	}
	return f.each(s["anyOf"], depth) || f.each(s["oneOf"], depth)
}

// each reports whether every form of a list lets only texts through.
func (f textForm) each(list any, depth int) bool {
	forms, ok := list.([]any)
	for _, one := range forms {
		ok = ok && f.only(one, depth+1)
	}
	return ok && len(forms) > 0
}

// find is what a reference inside the document points at, nil when that is not a
// plain path.
func (f textForm) find(ref string) any {
	at := f.root
	rest, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	for step := range strings.SplitSeq(rest, "/") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
	}
	return at
}

func texts(values []any) bool {
	for _, v := range values {
		if _, ok := v.(string); !ok {
			return false
		}
	}
	return len(values) > 0
}
