package agent

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
)

// Names of the files and folders of a project.
const (
	projectFile = "crumb.yaml"
	agentsDir   = "agents"
	agentFile   = "agent.yaml"
	promptFile  = "prompt.md"
	toolsDir    = "tools"
	scriptsDir  = "scripts"
	yamlExt     = ".yaml"
)

// OwnVariables begins the names of the variables that are the mesh's own: no command
// of a file is given one.
const OwnVariables = "CRUMB_"

var envRE = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checker collects what is wrong with one document after the other.
type checker struct {
	file  string // of the document at hand, relative to the agent's folder
	found []problem
}

// fail adds a fault at a place of the document; the message begins with it.
func (c *checker) fail(at place, err error) {
	if err == nil {
		return
	}
	f := *fault.From(err)
	if len(at) > 0 {
		f.Message = at.String() + ": " + f.Message
	}
	c.found = append(c.found, problem{file: c.file, at: at, err: &f})
}

// bad adds an INVALID_CONFIG.
func (c *checker) bad(at place, format string, args ...any) {
	c.fail(at, fault.New(fault.InvalidConfig, format, args...))
}

// first is the first fault, nil when there is none.
func (c *checker) first() error {
	if len(c.found) == 0 {
		return nil
	}
	return c.found[0].err
}

// Check applies every rule that the files of an agent are under to d, however
// it came. It returns Faults whose files are named as in the agent's folder:
// INVALID_NAME, INVALID_PERMISSION (CF-P26), INVALID_CONFIG, PAYLOAD_TOO_LARGE.
// Defaults must be filled in, as Load and Decode do.
func (d *Definition) Check() error {
	c := new(checker)
	c.definition(d)
	var faults []Fault
	for _, p := range c.found {
		faults = append(faults, Fault{File: cmp.Or(p.file, "agent"), Err: p.err})
	}
	return ordered(faults)
}

func (c *checker) definition(d *Definition) {
	c.file = ""
	c.fail(nil, crumbs.CheckAgentID(string(d.ID)))
	c.file = agentFile
	c.description(nil, d.Description)
	c.model(place{"model"}, d.Model, " or the name of an entry of models of "+projectFile)
	c.providers(d.Providers)
	if d.Model.Model != "" && d.scripted() {
		c.scripted(place{"model", "model"}, d.Model.Model, d.Scripts)
	}
	c.schema(place{"inputSchema"}, d.InputSchema)
	c.output(d)
	c.permissions(place{"permissions"}, d.Permissions)
	c.within(place{"steps", "max"}, int64(d.Steps.Max), 1, StepsMax)
	c.retry(place{"errorHandling", "retry"}, d.ErrorHandling.Retry)
	c.hooks(place{"hooks"}, ofAgent(d.ID), d.Hooks)
	c.plugins(d.Plugins)
	c.file = promptFile
	c.text(nil, d.System, FileBytesMax)
	c.tools(d)
	c.scripts(d.Scripts)
	c.size(d)
}

func (c *checker) size(d *Definition) {
	text, err := json.Marshal(d)
	c.file = agentFile
	switch {
	case err != nil && len(c.found) == 0:
		c.bad(nil, "the definition holds a part that is no JSON")
	case len(text) > DefinitionBytesMax:
		c.fail(nil, tooLarge(len(text)))
	}
}

// plugins checks what an agent says to plugins: JSON, whatever it is.
func (c *checker) plugins(all map[string]json.RawMessage) {
	c.bounded(place{"plugins"}, len(all), PluginsMax, "plugin")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		at := place{"plugins", name}
		c.name(at, "plugin", name)
		c.fail(at, anyDocument(all[name]))
	}
}

// scripted reports whether the definition itself says that scripts answer.
func (d *Definition) scripted() bool {
	own, ok := d.Providers[d.Model.Provider]
	if ok {
		return own.Kind == ScriptProvider
	}
	return d.Model.Provider == ScriptProvider
}

// model checks a model; or is what may stand in its place.
func (c *checker) model(at place, m Model, or string) {
	if m.Provider == "" && m.Model == "" {
		c.bad(at, "expected {provider: …, model: …}%s, got nothing", or)
		return
	}
	c.name(at.key("provider"), "provider", m.Provider)
	name := at.key("model")
	switch {
	case m.Model == "":
		c.bad(name, "expected the name of a model, got nothing")
	case len(m.Model) > ModelNameMax || strings.ContainsFunc(m.Model, unicode.IsControl):
		c.bad(name, "expected a name of at most %d bytes on one line, got %s", ModelNameMax, quote(m.Model))
	}
	if !isAbsent(m.ProviderOptions) {
		c.object(at.key("providerOptions"), m.ProviderOptions)
	}
	c.settings(at.key("settings"), m.Settings)
}

// scripted checks that the model of a scripted agent is one of its scripts.
func (c *checker) scripted(at place, name string, scripts map[string]Script) {
	if _, ok := scripts[name]; ok {
		return
	}
	have := slices.Sorted(maps.Keys(scripts))
	hint := "the agent has no scripts"
	if len(have) > 0 {
		hint = "there is " + strings.Join(have[:min(len(have), closeMax)], ", ")
	}
	c.bad(at, "the provider script reads scripts/%s.yaml, which is not there (%s)", clip(name), hint)
}

func (c *checker) settings(at place, s *crumbs.ModelSettings) {
	if s == nil {
		return
	}
	for _, f := range []struct {
		name     string
		value    *float64
		min, max float64
	}{
		{"temperature", s.Temperature, 0, 2}, {"topP", s.TopP, 0, 1},
		{"presencePenalty", s.PresencePenalty, -2, 2}, {"frequencyPenalty", s.FrequencyPenalty, -2, 2},
	} {
		if f.value != nil && (*f.value < f.min || *f.value > f.max) {
			c.bad(at.key(f.name), "expected a number from %g to %g, got %g", f.min, f.max, *f.value)
		}
	}
	for _, f := range []struct {
		name  string
		value *int64
	}{{"maxOutputTokens", s.MaxOutputTokens}, {"topK", s.TopK}} {
		if f.value != nil && *f.value < 1 {
			c.bad(at.key(f.name), "expected an integer from 1 on, got %d", *f.value)
		}
	}
	if n := len(s.StopSequences); n > stopsMax {
		c.bad(at.key("stopSequences"), "expected at most %d texts, got %d", stopsMax, n)
	}
}

// stopsMax bounds stopSequences; providers take 4 to 16.
const stopsMax = 16

func (c *checker) permissions(at place, l perm.Lists) {
	for _, list := range []struct {
		name      string
		selectors []string
	}{{"allow", l.Allow}, {"ask", l.Ask}, {"deny", l.Deny}} {
		at := at.key(list.name)
		if n := len(list.selectors); n > perm.SelectorsMax {
			c.fail(at, fault.New(fault.InvalidPermission, "expected at most %d selectors, got %d; use globs", perm.SelectorsMax, n))
			continue
		}
		for i, s := range list.selectors {
			_, err := perm.ParseSelector(s)
			c.fail(at.index(i), err)
		}
	}
}

func (c *checker) retry(at place, r *Retry) {
	if r == nil {
		return
	}
	c.within(at.key("attempts"), int64(r.Attempts), 0, AttemptsMax)
	c.within(at.key("backoffMs"), r.BackoffMs, 1, BackoffMsMax)
	if m := r.BackoffMultiplier; !(m >= 1 && m <= MultiplierMax) { // also refuses NaN
		c.bad(at.key("backoffMultiplier"), "expected a number from 1 to %d, got %g", MultiplierMax, m)
	}
}

// name checks a lowercase snake_case name (L8).
func (c *checker) name(at place, kind, value string) {
	if value == "" {
		c.fail(at, fault.New(fault.InvalidName, "expected the name of a %s, got nothing", kind).With("kind", kind).With("value", ""))
		return
	}
	c.fail(at, crumbs.CheckName(kind, value))
}

// handler checks the name that a tool is announced under: `<name>`, or
// `<agent>/<name>`.
func (c *checker) handler(at place, value string) {
	owner, name, ok := strings.Cut(value, "/")
	if !ok {
		name = owner
	} else {
		c.fail(at, crumbs.CheckAgentID(owner))
	}
	c.name(at, "tool", name)
}

func (c *checker) oneOf(at place, value string, allowed ...string) {
	if slices.Contains(allowed, value) {
		return
	}
	c.bad(at, "expected %s, got %s%s", orList(allowed), quote(value), meant(value, allowed))
}

func (c *checker) within(at place, value, lo, hi int64) {
	if value < lo || value > hi {
		c.bad(at, "expected an integer from %d to %d, got %d", lo, hi, value)
	}
}

func (c *checker) text(at place, s string, bytesMax int) {
	if len(s) > bytesMax {
		c.bad(at, "expected at most %d bytes, got %d", bytesMax, len(s))
	}
}

func (c *checker) description(at place, s string) {
	c.text(at.key("description"), s, DescriptionMax)
}

// schema checks an optional JSON Schema.
func (c *checker) schema(at place, raw json.RawMessage) {
	if isAbsent(raw) {
		return
	}
	if _, err := argument.Compile(raw); err != nil {
		c.fail(at, err)
		return
	}
	// A number that RFC 8785 cannot keep would let two schemas share a hash.
	if _, err := argument.Canonical(raw); err != nil {
		c.bad(at, "%s", fault.From(err).Message)
	}
}

// objectSchema checks the optional schema of arguments: models send objects.
func (c *checker) objectSchema(at place, raw json.RawMessage) {
	c.schema(at, raw)
	var root struct {
		Type any `json:"type"`
	}
	if isAbsent(raw) || json.Unmarshal(raw, &root) != nil {
		return
	}
	if root.Type != nil && root.Type != "object" {
		c.bad(at.key("type"), `expected "object", since arguments are an object; wrap the value in a property`)
	}
}

// object checks a JSON object that is passed on as it is.
func (c *checker) object(at place, raw json.RawMessage) {
	if err := anyDocument(raw); err != nil {
		c.fail(at, err)
		return
	}
	if !strings.HasPrefix(strings.TrimSpace(string(raw)), "{") {
		c.bad(at, "expected an object")
	}
}

// anyDocument returns INVALID_CONFIG unless raw is one JSON document by the
// strict reader: UTF-8, no duplicate keys, bounded.
func anyDocument(raw json.RawMessage) error {
	anything, err := argument.Compile(json.RawMessage("true"))
	if err != nil {
		return err
	}
	return anything.Check(fault.InvalidConfig, raw)
}

// orList renders `a, b or c`.
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// meant renders `; did you mean a or b?`, "" when nothing is close.
func meant(word string, candidates []string) string {
	near := closest(word, candidates)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + orList(near) + "?"
}
