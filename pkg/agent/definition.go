package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
)

// Definition is one revision of one agent: everything a run of it needs, and
// nothing of the project. It is stored as it is in bucket `agents`.
type Definition struct {
	ID            crumbs.AgentID             `json:"id"`
	Description   string                     `json:"description,omitempty"`
	Model         Model                      `json:"model"`                  // an alias is resolved
	Providers     map[string]Provider        `json:"providers,omitempty"`    // the agent's own instances, before the project's
	System        string                     `json:"system,omitempty"`       // prompt.md
	InputSchema   json.RawMessage            `json:"inputSchema,omitempty"`  // absent means any input
	OutputSchema  json.RawMessage            `json:"outputSchema,omitempty"` // absent means any output
	Output        Output                     `json:"output"`
	Permissions   perm.Lists                 `json:"permissions,omitzero"`
	Steps         Steps                      `json:"steps"`
	ErrorHandling ErrorHandling              `json:"errorHandling,omitzero"`
	Hooks         Hooks                      `json:"hooks,omitzero"`
	Plugins       map[string]json.RawMessage `json:"plugins,omitempty"` // what each plugin is told of the agent; nobody else looks inside
	Tools         []Tool                     `json:"tools,omitempty"`   // by name
	Scripts       map[string]Script          `json:"scripts,omitempty"` // by name

	input, output *argument.Schema // InputSchema and OutputSchema compiled, after Compile
}

// Model is the model an agent talks to and how.
type Model struct {
	Provider        string                `json:"provider"` // a provider instance, or `script`
	Model           string                `json:"model"`    // the provider's name of it; of `script`, the name of a script
	Settings        *crumbs.ModelSettings `json:"settings,omitempty"`
	ProviderOptions json.RawMessage       `json:"providerOptions,omitempty"` // an object, passed on under the provider's key
}

// Steps bounds a run's model turns that ask for tools.
type Steps struct {
	Max int `json:"max"`
}

// ErrorHandling says what follows a failed attempt: of an agent, a model call and
// what is made of its answer; of a tool, a call of it.
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

// fill sets the waits that the author left out.
func (r *Retry) fill() {
	if r != nil {
		r.BackoffMs = cmp.Or(r.BackoffMs, DefaultBackoffMs)
		r.BackoffMultiplier = cmp.Or(r.BackoffMultiplier, DefaultBackoffMultiplier)
	}
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
	d := new(Definition)
	if err := decode("the definition", raw, d); err != nil {
		return nil, err
	}
	d.fill()
	if err := d.Check(); err != nil {
		return nil, err
	}
	return d, nil
}

// DecodeShared reads what a project's agents share, as `agents.apply` carries it:
// like Decode. Nothing is nothing shared.
func DecodeShared(raw json.RawMessage) (Shared, error) {
	var s Shared
	if isAbsent(raw) {
		return s, nil
	}
	if len(raw) > SharedBytesMax {
		return s, fault.New(fault.PayloadTooLarge, "the hooks and plugins of crumb.yaml have %d bytes as JSON: expected at most %d; put commands into scripts", len(raw), SharedBytesMax).
			With("bytes", len(raw)).With("limit", SharedBytesMax)
	}
	if err := decode("what agents share", raw, &s); err != nil {
		return s, err
	}
	s.fill()
	return s, s.Check()
}

// decode reads one JSON document strictly.
func decode(what string, raw json.RawMessage, into any) error {
	if err := anyDocument(raw); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return undecodable(what, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fault.New(fault.InvalidConfig, "%s: expected one JSON object, got more after it", what)
	}
	return nil
}

// undecodable says in our words why a JSON text is not what it should be.
func undecodable(what string, err error) error {
	var misfit *json.UnmarshalTypeError
	if errors.As(err, &misfit) {
		return fault.Wrap(fault.InvalidConfig, err, "%s: %s cannot be a JSON %s; schemas/ has its form", what, word(misfit.Field), misfit.Value)
	}
	if _, name, ok := strings.Cut(err.Error(), "unknown field "); ok {
		return fault.Wrap(fault.InvalidConfig, err, "%s: unknown field %s; schemas/ has the known ones", what, clip(name))
	}
	return fault.Wrap(fault.InvalidConfig, err, "%s: expected a JSON object as schemas/ describes it", what)
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

// Queue is the queue of the agent's model calls: its provider instance, or
// OwnProvider when the instance is the agent's own.
func (d *Definition) Queue() string {
	if _, own := d.Providers[d.Model.Provider]; own {
		return OwnProvider
	}
	return d.Model.Provider
}

// Compile prepares the schemas, once for all runs. A definition is not to be used
// by several goroutines before it returns. It fails with INVALID_CONFIG.
func (d *Definition) Compile() (err error) {
	if d.input, err = compiled(d.InputSchema); err != nil {
		return err
	}
	d.output, err = compiled(d.OutputSchema)
	return err
}

// Input is the compiled InputSchema, nil when any input is right. It fails with
// INVALID_CONFIG when the schema is none.
func (d *Definition) Input() (*argument.Schema, error) {
	if d.input != nil {
		return d.input, nil
	}
	return compiled(d.InputSchema)
}

// OutputOf is the compiled OutputSchema, nil when any output is right. It fails
// with INVALID_CONFIG when the schema is none.
func (d *Definition) OutputOf() (*argument.Schema, error) {
	if d.output != nil {
		return d.output, nil
	}
	return compiled(d.OutputSchema)
}

// compiled is an optional schema, nil when absent.
func compiled(raw json.RawMessage) (*argument.Schema, error) {
	if isAbsent(raw) {
		return nil, nil //nolint:nilnil // no schema is no fault
	}
	return argument.Compile(raw)
}

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
	if f := d.Output.Custom; f != nil {
		f.Group = cmp.Or(f.Group, DefaultGroup)
		if f.Exec != nil {
			f.TimeoutMs = cmp.Or(f.TimeoutMs, DefaultHookTimeoutMs)
		}
	}
	d.ErrorHandling.Retry.fill()
	d.Hooks.fill(ofAgent(d.ID))
	for i := range d.Tools {
		d.Tools[i].fill(d.ID)
	}
	for name, s := range d.Scripts {
		s.Name = cmp.Or(s.Name, name)
		d.Scripts[name] = s
	}
}
