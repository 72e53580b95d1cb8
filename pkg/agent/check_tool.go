package agent

import (
	"cmp"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
)

// neverSuspends is why a tool has no hook onSuspend.
const neverSuspends = "a tool never suspends: runs do, so the hook belongs to the agent, a plugin or the project"

func (c *checker) tools(d *Definition) {
	if n := len(d.Tools); n > ToolsMax {
		c.file = agentFile
		c.bad(nil, "the agent has %d tools: expected at most %d; split it into agents", n, ToolsMax)
	}
	seen := make(map[string]bool, len(d.Tools))
	for _, t := range d.Tools[:min(len(d.Tools), ToolsMax)] {
		c.file = toolsDir + "/" + t.Name + yamlExt
		if seen[t.Name] {
			c.bad(nil, "a second tool %s: one file, one tool", quote(t.Name))
		}
		seen[t.Name] = true
		c.tool(d.ID, t)
	}
}

func (c *checker) tool(agent crumbs.AgentID, t Tool) {
	if err := crumbs.CheckName("tool", t.Name); err != nil {
		c.fail(nil, err)
	} else if _, err := perm.Leaf(t.Origin()); err != nil {
		c.fail(nil, err)
	}
	c.objectSchema(place{"schema"}, t.Schema)
	c.description(nil, t.Description)
	one := c.oneKind(t)
	if t.Exec != nil || t.Kind() == KindHuman {
		c.described(t)
	}
	if t.Exec != nil {
		c.exec(agent, t)
	}
	if t.Worker != nil {
		c.name(place{"worker", "group"}, "group", t.Worker.Group)
		c.handler(place{"worker", "tool"}, t.Worker.Tool)
	}
	if t.Human != nil {
		asked := *t.Human
		if t.Worker != nil { // what the announcement has
			asked.ExpiresMs = cmp.Or(asked.ExpiresMs, DefaultExpiresMs)
		}
		c.human(place{"human"}, &asked)
	}
	c.hooks(place{"hooks"}, ofTool(agent, t.Name), t.Hooks)
	if len(t.Hooks.OnSuspend) > 0 {
		c.bad(place{"hooks", crumbs.HookOnSuspend}, "%s", neverSuspends)
	}
	c.retry(place{"errorHandling", "retry"}, t.ErrorHandling.Retry)
	if t.Approval.Hooks != "" {
		c.oneOf(place{"approval", "hooks"}, t.Approval.Hooks, HooksBefore)
	}
	switch {
	case !one: // which fields it may have is not known, only what each may be
		c.run(t, true)
	case t.Kind() == KindHuman:
		c.askedOnly(t)
	default:
		c.run(t, t.Stream || t.Worker != nil)
		if t.Worker != nil && t.Stream {
			c.bad(place{"stream"}, "a worker's tool streams as the worker announced it: remove the field")
		}
		if t.Exec != nil && !t.Stream && t.KeepPartials {
			c.bad(place{"keepPartials"}, "only a tool that streams has partial results: set stream: true, or remove the field")
		}
	}
}

// run checks what says how a tool runs.
func (c *checker) run(t Tool, stream bool) {
	c.effect(nil, t.Effect)
	c.schema(place{"outputSchema"}, t.OutputSchema)
	c.timeouts(nil, stream, t.TimeoutMs, t.IdleTimeoutMs)
}

// oneKind checks that a tool says exactly one way to carry it out.
func (c *checker) oneKind(t Tool) bool {
	var said []string
	for _, k := range []struct {
		kind Kind
		is   bool
	}{{KindExec, t.Exec != nil}, {KindWorker, t.Worker != nil}, {KindHuman, t.Human != nil && t.Worker == nil}} {
		if k.is {
			said = append(said, string(k.kind))
		}
	}
	switch len(said) {
	case 1:
		return true
	case 0:
		c.bad(place{string(KindExec)}, "expected one of exec (a command), worker (a tool that a worker announced) or human (a question), got none")
	default:
		c.bad(place{said[1]}, "expected one of exec, worker or human, got %s", strings.Join(said, " and "))
	}
	return false
}

func (c *checker) described(t Tool) {
	if strings.TrimSpace(t.Description) == "" {
		c.bad(place{"description"}, "expected a text that tells the model when to use the tool, got nothing")
	}
}

func (c *checker) exec(agent crumbs.AgentID, t Tool) {
	e := t.Exec
	at := place{"exec"}
	c.command(at, e.Argv)
	c.name(place{"group"}, "group", e.Group)
	if want := handlerOf(agent, t.Name); e.Handler != want {
		c.bad(at.key("handler"), "expected %q, got %s", want, quote(e.Handler))
	}
	c.env(place{"env"}, e.Env)
	c.dir(place{"dir"}, ofTool(agent, t.Name).folder, e.Dir)
}

// env checks the names of variables that a command sees.
func (c *checker) env(at place, names []string) {
	if n := len(names); n > EnvMax {
		c.bad(at, "expected at most %d names, got %d", EnvMax, n)
	}
	for i, name := range names[:min(len(names), EnvMax)] {
		switch {
		case !envRE.MatchString(name) || len(name) > crumbs.AttrMax:
			c.bad(at.index(i), "expected the name of an environment variable, got %s; values stay in the worker's environment", quote(name))
		case strings.HasPrefix(name, OwnVariables):
			c.bad(at.index(i), "env name %s: names with %s are the mesh's own", quote(name), OwnVariables)
		}
	}
}

// command checks the words of a command line.
func (c *checker) command(at place, argv []string) {
	total := 0
	for i, word := range argv {
		total += len(word)
		if strings.ContainsRune(word, 0) {
			c.bad(at.index(i), "a word of a command cannot hold a zero byte")
		}
	}
	switch {
	case len(argv) == 0 || argv[0] == "":
		c.bad(at, "expected a command as a list of words, like [node, search.js], got nothing")
	case len(argv) > ArgvMax || total > ArgvBytesMax:
		c.bad(at, "expected at most %d words of %d bytes together, got %d of %d; put them into a script", ArgvMax, ArgvBytesMax, len(argv), total)
	}
}

// dir checks where a command runs; base is the folder of the file that names it.
func (c *checker) dir(at place, base, dir string) {
	if dir == "" {
		return
	}
	if _, inside := beneath(base, dir); !inside || strings.ContainsAny(dir, "\\\x00") {
		c.bad(at, "expected a folder inside the project, relative to the file and with slashes, got %s", quote(dir))
	}
}

// human checks a question; at is where its fields stand.
func (c *checker) human(at place, h *Human) {
	c.schema(at.key("answerSchema"), h.AnswerSchema)
	c.text(at.key("prompt"), h.Prompt, PromptMax)
	if h.Prompt != "" && strings.TrimSpace(h.Prompt) == "" {
		c.bad(at.key("prompt"), "expected a text for the person who answers, got only white space; remove the key to ask without")
	}
	c.within(at.key("expiresMs"), h.ExpiresMs, 1, ExpiresMsMax)
}

// askedOnly checks that a question has no field of a tool that runs.
func (c *checker) askedOnly(t Tool) {
	for _, name := range t.runFields() {
		c.bad(place{name}, "a question has no %s: human takes answerSchema, prompt and expiresMs; remove the field", name)
	}
}

// effect checks an optional effect.
func (c *checker) effect(at place, e crumbs.Effect) {
	if e != "" {
		c.oneOf(at.key("effect"), string(e), string(crumbs.EffectPure), string(crumbs.EffectIdempotent), string(crumbs.EffectOnce))
	}
}

// timeouts checks optional timeouts; 0 means not said.
func (c *checker) timeouts(at place, stream bool, timeoutMs, idleMs int64) {
	if timeoutMs != 0 {
		c.within(at.key("timeoutMs"), timeoutMs, 1, TimeoutMsMax)
	}
	if idleMs == 0 {
		return
	}
	c.within(at.key("idleTimeoutMs"), idleMs, 1, TimeoutMsMax)
	if !stream {
		c.bad(at.key("idleTimeoutMs"), "only a tool that streams can be idle: set stream: true, or use timeoutMs")
	}
}
