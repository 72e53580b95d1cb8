package agent

import "github.com/crumbmesh/crumbmesh/pkg/crumbs"

// readHooks reads the field `hooks`, whose keys are f's.
func readHooks(o object, f fields) Hooks {
	var h Hooks
	points, ok := o.object("hooks", f)
	if !ok {
		return h
	}
	for _, point := range crumbs.HookPoints() {
		n, ok := points.n.field(point)
		if !ok {
			continue
		}
		at := points.at.key(point)
		items := []*node{n}
		if n.kind == kindList {
			if items = n.items; len(items) == 0 {
				o.s.refuse(at, n.line, n.column, invalidf("expected a hook, or a list of at least one, got an empty list: remove the key"))
			}
		}
		for i, item := range items {
			*h.at(point) = append(*h.at(point), readHook(o.s.object(item, at.index(i), hookFields())))
		}
	}
	return h
}

func readHook(o object) Hook {
	h := Hook{
		Name: o.word("name"), Exec: o.texts("exec"), NATS: o.word("nats"), Env: o.texts("env"), Dir: o.word("dir"), Group: o.word("group"),
		TimeoutMs: o.count("timeoutMs"), Advisory: o.boolean("advisory"), Retry: readRetry(o),
	}
	if w, ok := o.object("worker", hookWorkerFields()); ok {
		h.Worker = &HookWorker{Group: w.text("group"), Hook: w.text("hook")}
	}
	if o.has("nats") && h.NATS == "" { // refused already; that no way is left is the same fault
		o.s.broken = append(o.s.broken, o.at.key("exec"))
	}
	return h
}

// readPlugins reads the plugins of crumb.yaml.
func readPlugins(o object) []Plugin {
	var out []Plugin
	at := o.at.key("plugins")
	for i, n := range o.list("plugins") {
		p := o.s.object(n, at.index(i), pluginFields())
		out = append(out, Plugin{Name: p.text("name"), Hooks: readHooks(p, hooksFields())})
	}
	return out
}
