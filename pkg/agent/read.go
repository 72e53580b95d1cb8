package agent

import (
	"cmp"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
)

// readAgent reads agent.yaml into d.
func readAgent(s *source, d *Definition) {
	o := s.top(agentFields())
	d.Description = o.text("description")
	readModel(o, d)
	d.InputSchema = o.schema("inputSchema")
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
		readRetry(e, d)
	}
}

func readFormat(out object, d *Definition) {
	if n, ok := out.n.field("format"); ok && n.kind == kindObject {
		out.s.refuse(out.at.key("format"), n.line, n.column, notAvailable("a custom format"))
		return
	}
	d.Output.Format = out.word("format")
}

func readModel(o object, d *Definition) {
	if n, ok := o.n.field("model"); ok && n.kind == kindString {
		o.s.refuse(place{"model"}, n.line, n.column, notAvailable("an alias of a model (%s)", quote(n.text)))
		return
	}
	m, ok := o.object("model", modelFields())
	if !ok {
		return
	}
	d.Model.Provider, d.Model.Model = m.text("provider"), m.text("model")
	if n, ok := m.of("providerOptions", string(kindObject), kindObject); ok {
		d.Model.ProviderOptions = n.json()
	}
	s, ok := m.object("settings", settingsFields())
	if !ok {
		return
	}
	d.Model.Settings = &crumbs.ModelSettings{
		Temperature: s.number("temperature"), MaxOutputTokens: s.integer("maxOutputTokens"),
		TopP: s.number("topP"), TopK: s.integer("topK"),
		PresencePenalty: s.number("presencePenalty"), FrequencyPenalty: s.number("frequencyPenalty"),
		StopSequences: s.texts("stopSequences"), Seed: s.integer("seed"),
	}
}

func readRetry(e object, d *Definition) {
	r, ok := e.object("retry", retryFields())
	if !ok {
		return
	}
	d.ErrorHandling.Retry = &Retry{Attempts: int(r.amount("attempts")), BackoffMs: r.count("backoffMs")}
	if m := r.number("backoffMultiplier"); m != nil {
		d.ErrorHandling.Retry.BackoffMultiplier = *m
		if *m == 0 { // would read as the default
			n, _ := r.n.field("backoffMultiplier")
			r.s.misfit(r.at.key("backoffMultiplier"), n, "a number from 1 on")
		}
	}
	if r.n.kind == kindObject && !r.has("attempts") {
		r.s.refuse(r.at.key("attempts"), r.n.line, r.n.column, invalidf("expected the number of executions in total, like 3, got nothing"))
	}
}

// readTool reads tools/<name>.yaml.
func readTool(s *source, name string) Tool {
	o := s.top(toolFields())
	t := Tool{
		Name: name, Description: o.text("description"), Schema: o.schema("schema"), OutputSchema: o.schema("outputSchema"),
		Effect: crumbs.Effect(o.word("effect")), Stream: o.boolean("stream"),
		TimeoutMs: o.count("timeoutMs"), IdleTimeoutMs: o.count("idleTimeoutMs"),
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

// readProject reads crumb.yaml: which agents to serve, and the groups and
// providers with their defaults.
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
	if providers, ok := o.n.field("providers"); ok {
		all := s.open(providers, place{"providers"})
		for i, k := range all.n.keys {
			p.Providers[k.name] = readProvider(s, all.n.items[i], all.at.key(k.name))
		}
	}
	return agents
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
