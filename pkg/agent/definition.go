package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
)

// Definition is one revision of one agent: everything a run of it needs, and
// nothing of the project. It is stored as it is in bucket `agents`.
type Definition struct {
	ID            crumbs.AgentID    `json:"id"`
	Description   string            `json:"description,omitempty"`
	Model         Model             `json:"model"`
	System        string            `json:"system,omitempty"`       // prompt.md
	InputSchema   json.RawMessage   `json:"inputSchema,omitempty"`  // absent means any input
	OutputSchema  json.RawMessage   `json:"outputSchema,omitempty"` // absent means any output
	Output        Output            `json:"output"`
	Permissions   perm.Lists        `json:"permissions,omitzero"`
	Steps         Steps             `json:"steps"`
	ErrorHandling ErrorHandling     `json:"errorHandling,omitzero"`
	Tools         []Tool            `json:"tools,omitempty"`   // by name
	Scripts       map[string]Script `json:"scripts,omitempty"` // by name
}

// Model is the model an agent talks to and how.
type Model struct {
	Provider        string                `json:"provider"` // a provider instance, or `script`
	Model           string                `json:"model"`    // the provider's name of it; of `script`, the name of a script
	Settings        *crumbs.ModelSettings `json:"settings,omitempty"`
	ProviderOptions json.RawMessage       `json:"providerOptions,omitempty"` // an object, passed on under the provider's key
}

// Formats of an agent's output. Text and markdown are the same to the mesh.
const (
	FormatText     = "text"
	FormatMarkdown = "markdown"
	FormatJSON     = "json"   // structured generation, without tools
	FormatCustom   = "custom" // text that a parser turns into a value
)

// Output is the shape of an agent's answer.
type Output struct {
	Format string `json:"format"`
	Repair int    `json:"repair,omitempty"` // json: how often the model is asked to mend an answer that does not fit
}

// Steps bounds a run's model turns that ask for tools.
type Steps struct {
	Max int `json:"max"`
}

// ErrorHandling says what follows a failed model call.
type ErrorHandling struct {
	Retry *Retry `json:"retry,omitempty"`
}

// Retry repeats a failed attempt. The n-th wait is BackoffMs times
// BackoffMultiplier to the power n-1.
type Retry struct {
	Attempts          int     `json:"attempts"` // executions in total; 0 and 1 mean no repeat (CF-R05)
	BackoffMs         int64   `json:"backoffMs"`
	BackoffMultiplier float64 `json:"backoffMultiplier"`
}

// Decode reads a definition that arrives as JSON, as `agents.apply` does: it
// refuses unknown fields, fills the defaults in and checks the whole. It returns
// Faults, or INVALID_CONFIG for what is no definition at all. (A reader of the
// bucket uses json.Unmarshal instead: what is stored was checked, and a newer
// version may have written fields that this one does not know.)
func Decode(raw []byte) (*Definition, error) {
	if len(raw) > DefinitionBytesMax {
		return nil, tooLarge(len(raw))
	}
	if err := anyDocument(raw); err != nil {
		return nil, err
	}
	d := new(Definition)
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(d); err != nil {
		return nil, undecodable(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fault.New(fault.InvalidConfig, "the definition: expected one JSON object, got more after it")
	}
	d.fill()
	if err := d.Check(); err != nil {
		return nil, err
	}
	return d, nil
}

// undecodable says in our words why a JSON text is no definition.
func undecodable(err error) error {
	var misfit *json.UnmarshalTypeError
	if errors.As(err, &misfit) {
		return fault.Wrap(fault.InvalidConfig, err, "the definition: %s cannot be a JSON %s; schemas/ has its form", word(misfit.Field), misfit.Value)
	}
	if _, name, ok := strings.Cut(err.Error(), "unknown field "); ok {
		return fault.Wrap(fault.InvalidConfig, err, "the definition: unknown field %s; schemas/ has the known ones", clip(name))
	}
	return fault.Wrap(fault.InvalidConfig, err, "the definition: expected a JSON object as schemas/ describes it")
}

func tooLarge(bytes int) *fault.Error {
	return fault.New(fault.PayloadTooLarge, "the definition has %d bytes as JSON: expected at most %d; shorten the prompt or the scripts", bytes, DefinitionBytesMax).
		With("bytes", bytes).With("limit", DefinitionBytesMax)
}

// Revision names the content of d: `rev_` and the first 16 hex digits of the
// SHA-256 of its canonical JSON (sorted keys, no white space, numbers as
// written). It does not depend on the order in which files were read and
// changes with every field.
func (d *Definition) Revision() string {
	c := *d
	c.Tools = byName(d.Tools)
	return "rev_" + exactHash(c)[:shortHash]
}

// Queue is the queue of the agent's model calls: its provider instance.
func (d *Definition) Queue() string { return d.Model.Provider }

// Tool returns the tool of that name.
func (d *Definition) Tool(name string) (Tool, bool) {
	for _, t := range d.Tools {
		if t.Name == name {
			return t, true
		}
	}
	return Tool{}, false
}

// fill sets what an author may leave out.
func (d *Definition) fill() {
	d.Output.Format = cmp.Or(d.Output.Format, DefaultFormat)
	d.Steps.Max = cmp.Or(d.Steps.Max, DefaultStepsMax)
	if r := d.ErrorHandling.Retry; r != nil {
		r.BackoffMs = cmp.Or(r.BackoffMs, DefaultBackoffMs)
		r.BackoffMultiplier = cmp.Or(r.BackoffMultiplier, DefaultBackoffMultiplier)
	}
	for i := range d.Tools {
		d.Tools[i].fill(d.ID)
	}
	for name, s := range d.Scripts {
		s.Name = cmp.Or(s.Name, name)
		d.Scripts[name] = s
	}
}
