package agent

import (
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// hooks checks what a file declares; at is the place of its field `hooks`.
func (c *checker) hooks(at place, o owner, hooks Hooks) {
	for _, point := range crumbs.HookPoints() {
		if n := len(*hooks.at(point)); n > HooksMax {
			c.bad(at.key(point), "expected at most %d hooks, got %d", HooksMax, n)
			return
		}
	}
	for _, h := range hooks.each() {
		c.hook(h.place(at), o, h)
	}
}

func (c *checker) hook(at place, o owner, h hookAt) {
	var said []string
	for _, k := range []struct {
		name string
		is   bool
	}{{"worker", h.Worker != nil}, {"exec", h.Exec != nil}, {"nats", h.NATS != ""}} {
		if k.is {
			said = append(said, k.name)
		}
	}
	switch len(said) {
	case 0: // at exec, so that nothing is told beside a way that is said wrongly
		c.found = append(c.found, problem{file: c.file, at: at.key("exec"), err: fault.New(fault.InvalidConfig,
			"%s: expected one of worker ({group: …, hook: …}), exec (a command) or nats (a subject), got none", at)})
		return
	case 1:
	default:
		c.bad(at.key(said[1]), "expected one of worker, exec or nats, got %s", strings.Join(said, " and "))
		return
	}
	ofWorker := h.Worker != nil && h.Name == h.Worker.Hook
	if h.Name != o.named(h.point, h.n) && !ofWorker { // else it is as good as the owner's or the worker's, which is checked
		c.name(at.key("name"), "hook", h.Name)
	}
	switch {
	case h.Worker != nil:
		c.name(at.key("worker").key("group"), "group", h.Worker.Group)
		c.name(at.key("worker").key("hook"), "hook", h.Worker.Hook)
		if h.Group != "" {
			c.bad(at.key("group"), "a worker's hook is in the group of the worker: remove the field")
		}
	case h.Exec != nil:
		c.command(at.key("exec"), h.Exec)
		c.env(at.key("env"), h.Env)
		c.dir(at.key("dir"), o.folder, h.Dir)
		c.name(at.key("group"), "group", h.Group)
	default:
		if err := crumbs.CheckForeignSubject(h.NATS); err != nil {
			c.fail(at.key("nats"), fault.From(err))
		}
		c.name(at.key("group"), "group", h.Group)
	}
	if h.Exec == nil && len(h.Env) > 0 {
		c.bad(at.key("env"), "only a hook with exec has a field env: remove it")
	}
	if h.Exec == nil && h.Dir != "" {
		c.bad(at.key("dir"), "only a hook with exec has a field dir: remove it")
	}
	c.timeouts(at, false, h.TimeoutMs, 0)
	c.retry(at.key("retry"), h.Retry)
}

// Check applies the rules of crumb.yaml's hooks and plugins to s, however it came.
// It returns Faults: INVALID_NAME and INVALID_CONFIG. Defaults must be filled in,
// as Load and DecodeShared do.
func (s *Shared) Check() error {
	c := &checker{file: projectFile}
	c.shared(s)
	var faults []Fault
	for _, p := range c.found {
		faults = append(faults, Fault{File: p.file, Err: p.err})
	}
	return ordered(faults)
}

func (c *checker) shared(s *Shared) {
	at := place{"plugins"}
	c.bounded(at, len(s.Plugins), PluginsMax, "plugin")
	var seen []string
	for i, p := range s.Plugins[:min(len(s.Plugins), PluginsMax)] {
		at := at.index(i)
		c.name(at.key("name"), "plugin", p.Name)
		switch {
		case slices.Contains(seen, p.Name):
			c.bad(at.key("name"), "a second plugin %s: one entry each", quote(p.Name))
		case projectOwner+p.Name+"-" == ofAgent(crumbs.AgentID(strings.TrimSuffix(projectOwner, "/"))).handler:
			c.fail(at.key("name"), fault.New(fault.InvalidName, "plugin name %q is taken by the mesh: use another", p.Name).With("kind", "plugin").With("value", p.Name))
		}
		seen = append(seen, p.Name)
		c.hooks(at.key("hooks"), ofPlugin(p.Name), p.Hooks)
	}
	c.hooks(place{"hooks"}, ofProject(), s.Hooks)
}

// output checks the format, and what goes with it.
func (c *checker) output(d *Definition) {
	at := place{"output"}
	o := d.Output
	if words := []string{FormatText, FormatMarkdown, FormatJSON}; o.Format != FormatCustom && !slices.Contains(words, o.Format) {
		c.bad(at.key("format"), "expected %s or {custom: <parser>}, got %s%s", strings.Join(words, ", "), quote(o.Format), meant(o.Format, words))
	}
	c.schema(place{"outputSchema"}, d.OutputSchema)
	c.within(at.key("repair"), int64(o.Repair), 0, RepairMax)
	if o.Repair > 0 && o.Format != FormatJSON {
		c.bad(at.key("repair"), "only the format json is mended: remove the field")
	}
	switch o.Format {
	case FormatText, FormatMarkdown:
		if !isAbsent(d.OutputSchema) && !onlyTexts(d.OutputSchema) {
			c.bad(place{"outputSchema"}, `the format %s gives a text, so its schema lets only strings through, like {type: string}; another value needs format: json, or a custom one`, o.Format)
		}
	case FormatJSON:
		for _, t := range d.Tools {
			if t.Human != nil {
				c.bad(at.key("format"), "json has no tools, so nobody would ever be asked %s%s: remove the file, or use another format", toolsDir+"/", t.Name+yamlExt)
				break
			}
		}
	}
	switch {
	case o.Format == FormatCustom && o.Custom == nil:
		c.bad(at.key("format"), "expected {custom: …}, the name of a parser")
	case o.Format != FormatCustom && o.Custom != nil:
		c.bad(at.key("custom"), "only the format custom has a parser")
	case o.Custom != nil:
		c.parser(at.key("format"), *o.Custom)
	}
}

func (c *checker) parser(at place, f CustomFormat) {
	c.name(at.key("custom"), "parser", f.Name)
	c.name(at.key("group"), "group", f.Group)
	if f.Exec != nil {
		c.command(at.key("exec"), f.Exec)
	}
	c.timeouts(at, false, f.TimeoutMs, 0)
}
