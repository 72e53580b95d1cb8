package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
)

// Surroundings are what Assemble needs beside a definition.
type Surroundings struct {
	Shared    Shared                                                           // hooks and plugins of the project
	Announced func(kind Announced, group, handler string) (Announcement, bool) // looks up what a worker announced, as AnnouncementKey keeps it apart
	HasQueue  func(group string) bool                                          // whether calls of a group are queued anywhere
}

// Assemble makes the tool set of a run: the agent's tools that its permissions
// let through, each completed by what its worker announced, with the hooks that
// are called around it, those of the run, and the parser of its output. Warnings
// are for the crumb agent:run:start.
//
// Hooks are those of the file itself, then of the plugins as crumb.yaml lists
// them, then of the project. A tool has none of onSuspend, a question none at all,
// and a tool that streams neither onError nor a repeat, since its partial results
// are out. A worker's tool that was announced as a question is one: it has scope
// human and nobody runs it. With the format json the set has no tools.
//
// A denied tool is absent: it needs neither announcement nor queue. Of several
// faults the one whose tool's name sorts first is returned, hooks after tools:
//
//	TOOL_NOT_FOUND       a worker's tool is not announced, or is no tool
//	HOOK_NOT_FOUND       a worker's hook is not announced, or not for that point
//	PARSER_NOT_FOUND     the parser of the output is not announced
//	TOOL_GROUP_UNKNOWN   the group of a tool, hook or parser has no queue
//	TOOL_NAME_COLLISION  two permitted tools have one leaf (CF-P24)
//	INVALID_CONFIG, INVALID_NAME  an announcement is not usable
//	INVALID_PERMISSION   the definition was never checked
func Assemble(d *Definition, from Surroundings) (*ToolSet, []string, error) {
	policy, err := perm.Compile(d.Permissions)
	if err != nil {
		return nil, nil, err
	}
	a := &assembly{from: from}
	set := &ToolSet{Entries: []Entry{}}
	if d.Output.Format != FormatJSON {
		if set.Entries, err = a.entries(d, policy); err != nil {
			return nil, nil, err
		}
	}
	if set.Hooks, err = a.chains(declared{ofAgent(d.ID), d.Hooks}, crumbs.HookPoints()); err != nil {
		return nil, nil, err
	}
	if f := d.Output.Custom; f != nil {
		if set.Parser, err = a.parser(d.ID, *f); err != nil {
			return nil, nil, err
		}
	}
	return set, a.warnings, nil
}

// entries are the permitted tools, by leaf.
func (a *assembly) entries(d *Definition, policy *perm.Policy) ([]Entry, error) {
	entries := []Entry{}
	var all, permitted []perm.Origin
	for _, t := range byName(d.Tools) {
		n, announced := a.lookup(t)
		origin := t.Origin()
		if announced && n.Kind == AnnouncedHuman {
			origin.Scope = perm.Human
		}
		all = append(all, origin)
		e, err := named(origin)
		if err != nil {
			return nil, err
		}
		decision := policy.Decide(origin)
		if !decision.Permitted() {
			continue
		}
		if err := a.complete(&e, d.ID, t); err != nil {
			return nil, err
		}
		e.Verdict, e.Rule = decision.Verdict, decision.Rule
		entries = append(entries, e)
		permitted = append(permitted, origin)
	}
	if err := perm.Collisions(permitted); err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Leaf, b.Leaf) })
	for _, s := range policy.Unmatched(all) {
		a.warn("permissions: the selector %q matches none of the agent's tools", s)
	}
	return entries, nil
}

// byName is tools sorted by name, so that neither result nor fault depends on
// the order in which a definition lists them.
func byName(tools []Tool) []Tool {
	sorted := slices.Clone(tools)
	slices.SortStableFunc(sorted, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	return sorted
}

type assembly struct {
	from     Surroundings
	warnings []string
}

func (a *assembly) warn(format string, args ...any) {
	a.warnings = append(a.warnings, fmt.Sprintf(format, args...))
}

// named is the entry of a tool with its names only.
func named(origin perm.Origin) (Entry, error) {
	permID, err := perm.PermID(origin)
	if err != nil {
		return Entry{}, err
	}
	leaf, err := perm.Leaf(origin)
	if err != nil {
		return Entry{}, err
	}
	return Entry{Origin: origin, PermID: permID, Leaf: leaf}, nil
}

// complete fills in how the tool is carried out.
func (a *assembly) complete(e *Entry, id crumbs.AgentID, t Tool) error {
	e.Kind = KindWorker
	switch t.Kind() {
	case KindHuman:
		e.Kind, e.Human = KindHuman, t.Human
		e.Description, e.Schema = t.Description, orAnyObject(t.Schema)
		return nil
	case KindExec:
		e.take(t.Announcement().filled())
	case KindWorker:
		n, err := a.announcement(e.PermID, t)
		if err != nil {
			return err
		}
		if n.Kind == AnnouncedHuman {
			a.ask(e, t, n)
			return nil
		}
		if t.Human != nil {
			return fault.New(fault.InvalidConfig, "%s: the tool file says human, and worker %q of group %q is no question but runs: remove the field", e.PermID, t.Worker.Tool, t.Worker.Group)
		}
		e.take(n)
		a.override(e, t, n)
	default:
		return fault.New(fault.InvalidConfig, "%s: expected one of exec, worker or human, got none", e.PermID)
	}
	if err := a.queued(e.PermID, e.Group); err != nil {
		return err
	}
	return a.around(e, id, t)
}

// around fills in what happens before and after the tool runs.
func (a *assembly) around(e *Entry, id crumbs.AgentID, t Tool) (err error) {
	points := []string{crumbs.HookBeforeRun, crumbs.HookAfterRun, crumbs.HookOnError}
	e.Retry, e.KeepPartials = t.ErrorHandling.Retry, t.KeepPartials
	if e.Stream {
		if e.Retry != nil || len(t.Hooks.OnError) > 0 {
			a.warn("%s streams, so a failure of it stands: errorHandling and onError have no effect", e.PermID)
		}
		points, e.Retry = points[:2], nil
	} else if e.KeepPartials {
		a.warn("%s: keepPartials has no effect, since the tool does not stream", e.PermID)
		e.KeepPartials = false
	}
	if e.Hooks, err = a.chains(declared{ofTool(id, t.Name), t.Hooks}, points); err != nil {
		return err
	}
	e.HooksFirst = t.Approval.Hooks == HooksBefore && len(e.Hooks.At(crumbs.HookBeforeRun)) > 0
	return nil
}

// queued checks that calls of a group get anywhere.
func (a *assembly) queued(of, group string) error {
	if a.from.HasQueue(group) {
		return nil
	}
	return fault.New(fault.ToolGroupUnknown, "%s: the group %q has no queue; name it in crumb.yaml under `groups` and apply again", of, group).
		With("tool", of).With("group", group)
}

// lookup is what was announced of a worker's tool, if anything was.
func (a *assembly) lookup(t Tool) (Announcement, bool) {
	if t.Kind() != KindWorker {
		return Announcement{}, false
	}
	return a.from.Announced(AnnouncedTool, t.Worker.Group, t.Worker.Tool)
}

// announcement is what the worker's group announced for t, checked and filled.
func (a *assembly) announcement(permID string, t Tool) (Announcement, error) {
	n, ok := a.lookup(t)
	if ok && (n.Kind == AnnouncedHook || n.Kind == AnnouncedParse) {
		return n, a.noTool(permID, t, n.Kind)
	}
	for _, kind := range []Announced{AnnouncedHook, AnnouncedParse} {
		if _, other := a.from.Announced(kind, t.Worker.Group, t.Worker.Tool); other && !ok {
			return n, a.noTool(permID, t, kind)
		}
	}
	if !ok {
		return n, fault.New(fault.ToolNotFound, "%s: no worker of group %q has announced a tool %q; start one that serves it", permID, t.Worker.Group, t.Worker.Tool).
			With("group", t.Worker.Group).With("tool", t.Worker.Tool)
	}
	if err := usable(permID, n, n.Kind, t.Worker.Group, t.Worker.Tool); err != nil {
		return n, err
	}
	return n.filled(), nil
}

func (a *assembly) noTool(permID string, t Tool, kind Announced) error {
	what := map[Announced]string{AnnouncedHook: "a hook: name it under hooks", AnnouncedParse: "a parser: name it under output.format"}[kind]
	return fault.New(fault.ToolNotFound, "%s: what a worker of group %q announced as %q is no tool but %s", permID, t.Worker.Group, t.Worker.Tool, what).
		With("group", t.Worker.Group).With("tool", t.Worker.Tool).With("kind", string(kind))
}

// usable checks an announcement that was looked up by group and handler for of.
func usable(of string, n Announcement, kind Announced, group, handler string) error {
	if n.Group != group || n.Handler != handler || n.Kind != kind {
		return fault.New(fault.InvalidConfig, "%s: looked for %q of group %q, got the announcement of %q of group %q", of, handler, group, n.Handler, n.Group)
	}
	if err := n.Check(); err != nil {
		f := fault.From(err)
		return fault.New(f.Code, "%s: what group %q announced as %q is not usable: %s", of, group, handler, f.Message).
			With("group", group).With("tool", handler)
	}
	return nil
}

// take copies an announcement into the entry.
func (e *Entry) take(n Announcement) {
	e.Group, e.Handler, e.ToolHash, e.Description = n.Group, n.Handler, n.Hash(), n.Description
	e.Schema, e.OutputSchema, e.Effect, e.Stream = n.Schema, n.OutputSchema, n.Effect, n.Stream
	e.TimeoutMs, e.IdleTimeoutMs = n.TimeoutMs, n.IdleTimeoutMs
}

// override lets the tool file have the last word on what it says. The hash
// stays the announcement's: it names the worker's code.
func (a *assembly) override(e *Entry, t Tool, n Announcement) {
	e.Description = cmp.Or(t.Description, n.Description)
	e.Effect = cmp.Or(t.Effect, n.Effect)
	e.TimeoutMs = cmp.Or(t.TimeoutMs, n.TimeoutMs)
	e.IdleTimeoutMs = cmp.Or(t.IdleTimeoutMs, n.IdleTimeoutMs)
	if !isAbsent(t.Schema) {
		e.Schema = t.Schema
	}
	if !isAbsent(t.OutputSchema) {
		e.OutputSchema = t.OutputSchema
	}
	if repeats(e.Effect) > repeats(n.Effect) {
		a.warn("%s: the tool file says effect %s, its worker announced %s: after a crash a call may run again that the worker's author did not expect to", e.PermID, e.Effect, n.Effect)
	}
	if t.IdleTimeoutMs != 0 && !n.Stream {
		a.warn("%s: idleTimeoutMs has no effect, since the worker's tool does not stream", e.PermID)
		e.IdleTimeoutMs = 0
	}
}

// ask makes the entry the question that a worker announced, with what the tool
// file says over it. Nobody runs it, so it has neither group nor hooks.
func (a *assembly) ask(e *Entry, t Tool, n Announcement) {
	h := Human{AnswerSchema: n.AnswerSchema, Prompt: n.Prompt, ExpiresMs: n.ExpiresMs}
	if t.Human != nil {
		h.Prompt, h.ExpiresMs = cmp.Or(t.Human.Prompt, h.Prompt), cmp.Or(t.Human.ExpiresMs, h.ExpiresMs)
		if !isAbsent(t.Human.AnswerSchema) {
			h.AnswerSchema = t.Human.AnswerSchema
		}
	}
	e.Kind, e.Human, e.Schema = KindHuman, &h, n.Schema
	e.Description = cmp.Or(t.Description, n.Description)
	if !isAbsent(t.Schema) {
		e.Schema = t.Schema
	}
	if runs := t.runFields(); len(runs) > 0 {
		a.warn("%s is a question, which nobody runs: %s of its tool file have no effect", e.PermID, strings.Join(runs, ", "))
	}
}

// chains completes the hooks of a file, of the plugins and of the project at the
// given points, nil when there are none.
func (a *assembly) chains(own declared, points []string) (*Chains, error) {
	var c Chains
	some := false
	for _, of := range append([]declared{own}, a.from.Shared.chain()...) {
		for _, h := range of.hooks.each() {
			if !slices.Contains(points, h.point) {
				continue
			}
			e, err := a.hook(of.owner, h)
			if err != nil {
				return nil, err
			}
			list := c.list(h.point)
			*list = append(*list, e)
			some = true
		}
	}
	if !some {
		return nil, nil //nolint:nilnil // a set without hooks has no chains
	}
	return &c, nil
}

// hook is one hook, complete.
func (a *assembly) hook(o owner, h hookAt) (HookEntry, error) {
	e := HookEntry{Name: h.Name, Source: o.source, Advisory: h.Advisory, Retry: h.Retry}
	of := fmt.Sprintf("hook %s of %s at %s", h.Name, o, h.point)
	if h.Worker == nil {
		e.take(o.announcement(h))
		return e, a.queued(of, e.Group)
	}
	w := *h.Worker
	n, ok := a.from.Announced(AnnouncedHook, w.Group, w.Hook)
	if !ok {
		return e, fault.New(fault.HookNotFound, "%s: no worker of group %q has announced a hook %q; start one that registers it, or mend the name", of, w.Group, w.Hook).
			With("group", w.Group).With("hook", w.Hook).With("point", h.point)
	}
	if err := usable(of, n, AnnouncedHook, w.Group, w.Hook); err != nil {
		return e, err
	}
	if !slices.Contains(n.Points, h.point) {
		return e, fault.New(fault.HookNotFound, "%s: the hook %q of group %q was registered for %s only: name it there, or register it for %s too", of, w.Hook, w.Group, strings.Join(n.Points, ", "), h.point).
			With("group", w.Group).With("hook", w.Hook).With("point", h.point).With("points", n.Points)
	}
	e.take(n.filled())
	e.TimeoutMs = cmp.Or(h.TimeoutMs, e.TimeoutMs)
	return e, a.queued(of, e.Group)
}

// parser is the parser of a custom format, complete.
func (a *assembly) parser(id crumbs.AgentID, f CustomFormat) (*Parser, error) {
	p := &Parser{Name: f.Name}
	of := "parser " + f.Name
	if f.Exec != nil {
		p.take(f.announcement(id))
		return p, a.queued(of, p.Group)
	}
	n, ok := a.from.Announced(AnnouncedParse, f.Group, f.Name)
	if !ok {
		return nil, fault.New(fault.ParserNotFound, "%s: no worker of group %q has announced a parser %q; start one that registers it, mend the name, or write the command beside it as exec", of, f.Group, f.Name).
			With("group", f.Group).With("parser", f.Name)
	}
	if err := usable(of, n, AnnouncedParse, f.Group, f.Name); err != nil {
		return nil, err
	}
	p.take(n.filled())
	p.TimeoutMs = cmp.Or(f.TimeoutMs, p.TimeoutMs)
	return p, a.queued(of, p.Group)
}

// take copies an announcement.
func (p *Program) take(n Announcement) {
	p.Group, p.Handler, p.ToolHash, p.Effect, p.TimeoutMs = n.Group, n.Handler, n.Hash(), n.Effect, n.TimeoutMs
}

// repeats orders effects by how freely a call is run again.
func repeats(e crumbs.Effect) int {
	return slices.Index([]crumbs.Effect{crumbs.EffectOnce, crumbs.EffectIdempotent, crumbs.EffectPure}, e)
}

func orAnyObject(raw json.RawMessage) json.RawMessage {
	if isAbsent(raw) {
		return json.RawMessage(anyObject)
	}
	return raw
}
