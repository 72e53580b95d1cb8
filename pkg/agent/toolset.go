package agent

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
)

// Verdicts of an Entry: a denied tool has none.
const (
	VerdictAllow = perm.Allow
	VerdictAsk   = perm.Ask
)

// ToolSet is the tools a run has, pinned by its hash for all of the run. It is
// immutable; Assemble makes it.
type ToolSet struct {
	Entries []Entry `json:"tools"`            // by leaf
	Hooks   *Chains `json:"hooks,omitempty"`  // of the run; those of a tool are its entry's
	Parser  *Parser `json:"parser,omitempty"` // of the format custom
}

// Entry is one tool of a run, complete: what to show the model, whom to send
// the call to, and what to ask first.
type Entry struct {
	Origin        perm.Origin     `json:"origin"`
	PermID        string          `json:"permId"`            // tool:read_document
	Leaf          string          `json:"leaf"`              // tool_read_document
	Kind          Kind            `json:"kind"`              // worker or human; exec tools are their worker's
	Group         string          `json:"group,omitempty"`   // worker only
	Handler       string          `json:"handler,omitempty"` // worker only
	ToolHash      string          `json:"toolHash,omitempty"`
	Description   string          `json:"description,omitempty"`
	Schema        json.RawMessage `json:"schema"` // of the arguments; any object at least
	OutputSchema  json.RawMessage `json:"outputSchema,omitempty"`
	Effect        crumbs.Effect   `json:"effect,omitempty"`
	Stream        bool            `json:"stream,omitempty"`
	TimeoutMs     int64           `json:"timeoutMs,omitempty"`
	IdleTimeoutMs int64           `json:"idleTimeoutMs,omitempty"`
	StartBeforeMs int64           `json:"startBeforeMs,omitempty"` // of the group in crumb.yaml; set by whoever pins the set
	Verdict       perm.Verdict    `json:"verdict"`                 // allow or ask
	Rule          string          `json:"rule,omitempty"`          // the selector that decided
	Human         *Human          `json:"human,omitempty"`
	Hooks         *Chains         `json:"hooks,omitempty"`
	HooksFirst    bool            `json:"hooksFirst,omitempty"` // beforeRun hooks come before the question, not after the approval
	Retry         *Retry          `json:"retry,omitempty"`
	KeepPartials  bool            `json:"keepPartials,omitempty"` // of a tool that streams

	args, result *argument.Schema // Schema and OutputSchema compiled, after Compile
}

// QueueFor tells every tool, hook and parser how long its calls may wait in their
// group: ms says it of a group. It is for whoever pins the set.
func (s *ToolSet) QueueFor(ms func(group string) int64) {
	programs := s.Hooks.programs()
	for i := range s.Entries {
		if e := &s.Entries[i]; e.Group != "" {
			e.StartBeforeMs = ms(e.Group)
		}
		programs = append(programs, s.Entries[i].Hooks.programs()...)
	}
	if s.Parser != nil {
		programs = append(programs, &s.Parser.Program)
	}
	for _, p := range programs {
		p.StartBeforeMs = ms(p.Group)
	}
}

// Compile prepares the schemas, once for all calls. A set is not to be
// used by several goroutines before it returns. It fails with INVALID_CONFIG.
func (s *ToolSet) Compile() error {
	for i := range s.Entries {
		compiled, err := argument.Compile(s.Entries[i].Schema)
		if err != nil {
			return err
		}
		s.Entries[i].args = compiled
		if isAbsent(s.Entries[i].OutputSchema) {
			continue
		}
		if s.Entries[i].result, err = argument.Compile(s.Entries[i].OutputSchema); err != nil {
			return err
		}
	}
	return nil
}

// Arguments is the compiled Schema. It fails with INVALID_CONFIG when the schema
// is none.
func (e *Entry) Arguments() (*argument.Schema, error) {
	if e.args != nil {
		return e.args, nil
	}
	return argument.Compile(e.Schema)
}

// Results is the compiled OutputSchema, nil when any result is right. It fails with
// INVALID_CONFIG when the schema is none.
func (e *Entry) Results() (*argument.Schema, error) {
	if e.result != nil || isAbsent(e.OutputSchema) {
		return e.result, nil
	}
	return argument.Compile(e.OutputSchema)
}

// Hash is the hex SHA-256 of the set's canonical JSON (RFC 8785): the `toolSet`
// of the wire and the name under which the set is stored.
func (s *ToolSet) Hash() string { return fingerprint(s, fullHash) }

// Specs are the tools as the model sees them, by leaf. The order is stable, so
// that a provider's prompt cache holds over the steps of a run.
func (s *ToolSet) Specs() []crumbs.ToolSpec {
	specs := make([]crumbs.ToolSpec, len(s.Entries))
	for i, e := range s.Entries {
		specs[i] = crumbs.ToolSpec{Name: e.Leaf, Description: e.Description, InputSchema: e.Schema}
	}
	return specs
}

// Leaves are the model's names of the tools, sorted.
func (s *ToolSet) Leaves() []string {
	leaves := make([]string, len(s.Entries))
	for i, e := range s.Entries {
		leaves[i] = e.Leaf
	}
	return leaves
}

// Lookup returns the tool of that leaf; the entry is shared and not to be changed.
func (s *ToolSet) Lookup(leaf string) (*Entry, bool) {
	i, ok := slices.BinarySearchFunc(s.Entries, leaf, func(e Entry, leaf string) int { return strings.Compare(e.Leaf, leaf) })
	if !ok {
		return nil, false
	}
	return &s.Entries[i], true
}

// Close returns at most three leaves that a model may have meant by an unknown
// name. It knows only tools of the set, so no hidden or denied name leaks (F082).
func (s *ToolSet) Close(leaf string) []string { return closest(leaf, s.Leaves()) }
