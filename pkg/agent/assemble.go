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

// Assemble makes the tool set of a run: the agent's tools that its permissions
// let through, each completed by what its worker announced. announced looks a
// tool of a group up, groupHasQueue says whether calls of a group are queued
// anywhere. Warnings are for the crumb agent:run:start.
//
// A denied tool is absent: it needs neither announcement nor queue. Of several
// faults the one whose tool's name sorts first is returned:
//
//	TOOL_NOT_FOUND       a worker's tool is not announced
//	TOOL_GROUP_UNKNOWN   a tool's group has no queue
//	TOOL_NAME_COLLISION  two permitted tools have one leaf (CF-P24)
//	INVALID_CONFIG, INVALID_NAME  an announcement is not usable
//	INVALID_PERMISSION   the definition was never checked
func Assemble(d *Definition, announced func(group, tool string) (Announcement, bool), groupHasQueue func(group string) bool) (*ToolSet, []string, error) {
	policy, err := perm.Compile(d.Permissions)
	if err != nil {
		return nil, nil, err
	}
	a := &assembly{announced: announced, groupHasQueue: groupHasQueue}
	set := &ToolSet{Entries: []Entry{}}
	var all, permitted []perm.Origin
	for _, t := range byName(d.Tools) {
		all = append(all, t.Origin())
		e, err := named(t)
		if err != nil {
			return nil, nil, err
		}
		decision := policy.Decide(t.Origin())
		if !decision.Permitted() {
			continue
		}
		if err := a.complete(&e, t); err != nil {
			return nil, nil, err
		}
		e.Verdict, e.Rule = decision.Verdict, decision.Rule
		set.Entries = append(set.Entries, e)
		permitted = append(permitted, t.Origin())
	}
	if err := perm.Collisions(permitted); err != nil {
		return nil, nil, err
	}
	slices.SortFunc(set.Entries, func(a, b Entry) int { return strings.Compare(a.Leaf, b.Leaf) })
	for _, s := range policy.Unmatched(all) {
		a.warn("permissions: the selector %q matches none of the agent's tools", s)
	}
	return set, a.warnings, nil
}

// byName is tools sorted by name, so that neither result nor fault depends on
// the order in which a definition lists them.
func byName(tools []Tool) []Tool {
	sorted := slices.Clone(tools)
	slices.SortStableFunc(sorted, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	return sorted
}

type assembly struct {
	announced     func(group, tool string) (Announcement, bool)
	groupHasQueue func(group string) bool
	warnings      []string
}

func (a *assembly) warn(format string, args ...any) {
	a.warnings = append(a.warnings, fmt.Sprintf(format, args...))
}

// named is the entry of a tool with its names only.
func named(t Tool) (Entry, error) {
	permID, err := perm.PermID(t.Origin())
	if err != nil {
		return Entry{}, err
	}
	leaf, err := perm.Leaf(t.Origin())
	if err != nil {
		return Entry{}, err
	}
	return Entry{Origin: t.Origin(), PermID: permID, Leaf: leaf}, nil
}

// complete fills in how the tool is carried out.
func (a *assembly) complete(e *Entry, t Tool) error {
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
		e.take(n)
		a.override(e, t, n)
	default:
		return fault.New(fault.InvalidConfig, "%s: expected one of exec, worker or human, got none", e.PermID)
	}
	if !a.groupHasQueue(e.Group) {
		return fault.New(fault.ToolGroupUnknown, "%s: the group %q has no queue; name it in crumb.yaml under `groups` and apply again", e.PermID, e.Group).
			With("tool", e.PermID).With("group", e.Group)
	}
	return nil
}

// announcement is what the worker's group announced for t, checked and filled.
func (a *assembly) announcement(permID string, t Tool) (Announcement, error) {
	n, ok := a.announced(t.Worker.Group, t.Worker.Tool)
	if !ok {
		return n, fault.New(fault.ToolNotFound, "%s: no worker of group %q has announced a tool %q; start one that serves it", permID, t.Worker.Group, t.Worker.Tool).
			With("group", t.Worker.Group).With("tool", t.Worker.Tool)
	}
	if err := n.Check(); err != nil {
		f := fault.From(err)
		return n, fault.New(f.Code, "%s: what group %q announced as %q is not usable: %s", permID, t.Worker.Group, t.Worker.Tool, f.Message).
			With("group", t.Worker.Group).With("tool", t.Worker.Tool)
	}
	if n.Group != t.Worker.Group || n.Handler != t.Worker.Tool {
		return n, fault.New(fault.InvalidConfig, "%s: looked for %q of group %q, got the announcement of %q of group %q", permID, t.Worker.Tool, t.Worker.Group, n.Handler, n.Group)
	}
	return n.filled(), nil
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
