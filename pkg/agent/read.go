package agent

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
)

// readAgent reads agent.yaml into d, and what it takes of a project: aliases of
// models.
func readAgent(s *source, d *Definition, p *Project) {
	o := s.top(agentFields())
	d.Description = o.text("description")
	d.Model = readModel(o, p)
	d.Providers = readProviders(o)
	d.InputSchema, d.OutputSchema = o.schema("inputSchema"), o.schema("outputSchema")
	if out, ok := o.object("output", outputFields()); ok {
		readFormat(out, d)
	}
	if p, ok := o.object("permissions", permissionFields()); ok {
		d.Permissions = perm.Lists{Allow: p.texts("allow"), Ask: p.texts("ask"), Deny: p.texts("deny")}
	}
	if steps, ok := o.object("steps", stepsFields()); ok {
		d.Steps.Max = int(steps.count("max"))
	}
	if e, ok := o.object("errorHandling", errorFields()); ok {
		d.ErrorHandling.Retry = readRetry(e)
	}
	d.Hooks = readHooks(o, hooksFields())
	if plugins, ok := o.n.field("plugins"); ok {
		all := s.open(plugins, place{"plugins"})
		for i, k := range all.n.keys {
			if d.Plugins == nil {
				d.Plugins = map[string]json.RawMessage{}
			}
			d.Plugins[k.name] = all.n.items[i].json()
		}
	}
}

func readFormat(out object, d *Definition) {
	d.Output.Repair = int(out.amount("repair"))
	n, ok := out.n.field("format")
	if !ok || n.kind != kindObject {
		if d.Output.Format = out.word("format"); d.Output.Format == FormatCustom {
			out.s.refuse(out.at.key("format"), n.line, n.column, invalidf("a custom format names its parser: write format: {custom: <name>}"))
		}
		return
	}
	c, _ := out.object("format", customFields())
	d.Output.Format = FormatCustom
	d.Output.Custom = &CustomFormat{Name: c.text("custom"), Group: c.word("group"), Exec: c.texts("exec"), TimeoutMs: c.count("timeoutMs")}
}

// readModel reads which model answers: here, or as an alias of the project, whose
// default counts where nothing is said.
func readModel(o object, p *Project) Model {
	n, ok := o.n.field("model")
	if !ok {
		return p.Models[p.Default]
	}
	if n.kind != kindString {
		m, _ := o.object("model", modelFields())
		return readChoice(m)
	}
	alias, ok := p.Models[n.text]
	if !ok {
		have := slices.Sorted(maps.Keys(p.Models))
		hint := "it names none"
		if len(have) > 0 {
			hint = "it has " + orList(have[:min(len(have), closeMax)])
		}
		o.s.refuse(place{"model"}, n.line, n.column, invalidf("expected {provider: …, model: …} or an entry of models of %s (%s), got %s%s", projectFile, hint, quote(n.text), meant(n.text, have)))
	}
	return alias
}

// readChoice reads a provider, its model and how it is asked.
func readChoice(m object) Model {
	c := Model{Provider: m.text("provider"), Model: m.text("model")}
	if n, ok := m.of("providerOptions", string(kindObject), kindObject); ok {
		c.ProviderOptions = n.json()
	}
	s, ok := m.object("settings", settingsFields())
	if !ok {
		return c
	}
	c.Settings = &crumbs.ModelSettings{
		Temperature: s.number("temperature"), MaxOutputTokens: s.integer("maxOutputTokens"),
		TopP: s.number("topP"), TopK: s.integer("topK"),
		PresencePenalty: s.number("presencePenalty"), FrequencyPenalty: s.number("frequencyPenalty"),
		StopSequences: s.texts("stopSequences"), Seed: s.integer("seed"),
	}
	return c
}

// readRetry reads the field `retry` of an object, nil when it has none.
func readRetry(e object) *Retry {
	r, ok := e.object("retry", retryFields())
	if !ok {
		return nil
	}
	out := &Retry{Attempts: int(r.amount("attempts")), BackoffMs: r.count("backoffMs")}
	if m := r.number("backoffMultiplier"); m != nil {
		out.BackoffMultiplier = *m
		if *m == 0 { // would read as the default
			n, _ := r.n.field("backoffMultiplier")
			r.s.misfit(r.at.key("backoffMultiplier"), n, "a number from 1 on")
		}
	}
	if r.n.kind == kindObject && !r.has("attempts") {
		r.s.refuse(r.at.key("attempts"), r.n.line, r.n.column, invalidf("expected the number of executions in total, like 3, got nothing"))
	}
	return out
}

// readTool reads tools/<name>.yaml.
func readTool(s *source, name string) Tool {
	o := s.top(toolFields())
	t := Tool{
		Name: name, Description: o.text("description"), Schema: o.schema("schema"), OutputSchema: o.schema("outputSchema"),
		Effect: crumbs.Effect(o.word("effect")), Stream: o.boolean("stream"),
		TimeoutMs: o.count("timeoutMs"), IdleTimeoutMs: o.count("idleTimeoutMs"), KeepPartials: o.boolean("keepPartials"),
		Hooks: readHooks(o, toolHooksFields()),
	}
	if e, ok := o.object("errorHandling", errorFields()); ok {
		t.ErrorHandling.Retry = readRetry(e)
	}
	if a, ok := o.object("approval", approvalFields()); ok {
		t.Approval.Hooks = a.word("hooks")
	}
	if o.has("exec") {
		t.Exec = &Exec{Argv: o.texts("exec"), Env: o.texts("env"), Dir: o.word("dir"), Group: o.word("group")}
	} else {
		for _, name := range []string{"env", "dir", "group"} {
			o.onlyWithExec(name)
		}
	}
	if w, ok := o.object("worker", workerFields()); ok {
		t.Worker = &Worker{Group: w.text("group"), Tool: w.text("tool")}
	}
	if h, ok := o.object("human", humanFields()); ok {
		t.Human = &Human{AnswerSchema: h.schema("answerSchema"), Prompt: h.word("prompt"), ExpiresMs: h.count("expiresMs")}
	}
	if o.has("http") { // refused already; that no kind is left is the same fault
		s.broken = append(s.broken, place{string(KindExec)})
	}
	return t
}

func (o object) onlyWithExec(name string) {
	if n, ok := o.n.field(name); ok {
		o.s.refuse(o.at.key(name), n.line, n.column, invalidf("only a tool with exec has a field %s: remove it", name))
	}
}

// readScript reads scripts/<name>.yaml.
func readScript(s *source, name string) Script {
	script := Script{Name: name}
	turns := place{"turns"}
	for i, n := range s.top(scriptFields()).list("turns") {
		script.Turns = append(script.Turns, readTurn(s.object(n, turns.index(i), turnFields())))
	}
	return script
}

func readTurn(o object) Turn {
	if o.n.kind == kindObject && len(o.n.keys) == 0 {
		o.s.refuse(o.at, o.n.line, o.n.column, invalidf("expected %s, got nothing", orList(turnFields().built)))
	}
	t := Turn{
		Text: o.text("text"), Chunks: o.texts("chunks"), DelayMs: o.amount("delayMs"), Reasoning: o.text("reasoning"),
		JSON: o.document("json"), FinishReason: o.word("finishReason"),
	}
	calls := o.at.key("toolCalls")
	for i, n := range o.list("toolCalls") {
		c := o.s.object(n, calls.index(i), scriptCallFields())
		t.ToolCalls = append(t.ToolCalls, ScriptCall{Name: c.text("name"), Args: c.document("args")})
	}
	files := o.at.key("files")
	for i, n := range o.list("files") {
		f := o.s.object(n, files.index(i), scriptFileFields())
		t.Files = append(t.Files, ScriptFile{Name: f.text("name"), MimeType: f.text("mimeType"), Text: f.text("text"), Base64: f.text("base64")})
	}
	if u, ok := o.object("usage", usageFields()); ok {
		t.Usage = &crumbs.Usage{
			InputTokens: u.amount("inputTokens"), OutputTokens: u.amount("outputTokens"), TotalTokens: u.amount("totalTokens"),
			CacheReadTokens: u.amount("cacheReadTokens"), CacheWriteTokens: u.amount("cacheWriteTokens"),
			ReasoningTokens: u.amount("reasoningTokens"), Estimated: u.boolean("estimated"),
		}
	}
	if e, ok := o.object("error", scriptErrorFields()); ok {
		t.Error = &TurnError{Status: int(e.amount("status")), RetryAfterMs: e.amount("retryAfterMs")}
	}
	return t
}

// readProject reads crumb.yaml: which agents to serve, and what they share, with
// the defaults.
func readProject(s *source, p *Project) (agents []string) {
	o := s.top(projectFields())
	agents = []string{everyAgent}
	if o.has("agents") {
		agents = o.texts("agents")
	}
	if groups, ok := o.n.field("groups"); ok {
		all := s.open(groups, place{"groups"})
		for _, k := range all.n.keys {
			g, _ := all.object(k.name, groupFields())
			p.Groups[k.name] = Group{
				MaxInFlight:   int(cmp.Or(g.count("maxInFlight"), DefaultMaxInFlight)),
				Command:       g.texts("command"),
				Watch:         g.texts("watch"),
				StartBeforeMs: cmp.Or(g.count("startBeforeMs"), DefaultStartBeforeMs),
			}
		}
	}
	maps.Copy(p.Providers, readProviders(o))
	if models, ok := o.n.field("models"); ok {
		all := s.open(models, place{"models"})
		for _, k := range all.n.keys {
			m, _ := all.object(k.name, aliasFields())
			p.Models[k.name] = readChoice(m)
			if !m.boolean("default") {
				continue
			}
			if p.Default != "" {
				n, _ := m.n.field("default")
				s.refuse(m.at.key("default"), n.line, n.column, invalidf("%s is the default already: one model can be", p.Default))
			}
			p.Default = k.name
		}
	}
	p.Shared = Shared{Plugins: readPlugins(o), Hooks: readHooks(o, hooksFields())}
	p.Shared.fill()
	return agents
}

// readProviders reads the instances of a project or of an agent, nil when it has
// none.
func readProviders(o object) map[string]Provider {
	providers, ok := o.n.field("providers")
	if !ok {
		return nil
	}
	out := map[string]Provider{}
	all := o.s.open(providers, place{"providers"})
	for i, k := range all.n.keys {
		out[k.name] = readProvider(o.s, all.n.items[i], all.at.key(k.name))
	}
	return out
}

func readProvider(s *source, n *node, at place) Provider {
	o := s.open(n, at)
	kind := o.text("kind")
	k, ok := o.n.field("kind")
	if !ok || k.kind != kindString {
		return Provider{} // the checker says what is expected, or the fault of form did
	}
	if kind != ScriptProvider && len(closest(kind, []string{ScriptProvider})) == 0 {
		s.refuse(at.key("kind"), k.line, k.column, notAvailable("a provider of kind %s", quote(kind)))
		return Provider{}
	}
	s.object(n, at, fields{built: []string{"kind"}})
	return Provider{Kind: kind}
}
