package perm

import (
	"regexp"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Bounds of names, in characters.
const (
	NameMax       = 32 // tool, skill, task, plugin, action
	PluginToolMax = 64 // a plugin's tool: MCP names are <server>__<tool>
	LeafMax       = 64 // what model providers accept as a function name
	quotedMax     = 256
)

const corePrefix = "core_"

var nameRE = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// Origin says where a tool comes from. Sub is the skill or plugin that brought
// it, empty in every other scope.
type Origin struct {
	Scope Scope  `json:"scope"`
	Sub   string `json:"sub,omitempty"`
	Name  string `json:"name"`
}

// Check returns INVALID_NAME, with {kind, value} in its context, for an unknown
// scope, a name outside `^[a-z][a-z0-9_]*$` or too long, a Skill or Plugin
// without Sub, and a Sub elsewhere.
func (o Origin) Check() error {
	if !o.Scope.known() {
		return badName("scope", string(o.Scope), "one of "+named(Scopes()))
	}
	kind, bound := string(o.Scope), NameMax
	switch {
	case o.Scope.hasSub():
		if err := checkName(string(o.Scope), o.Sub, NameMax); err != nil {
			return err
		}
		kind = string(Tool)
	case o.Sub != "":
		return badName("sub", o.Sub, "none: only skill and plugin tools have one")
	}
	if o.Scope == Plugin {
		bound = PluginToolMax
	}
	return checkName(kind, o.Name, bound)
}

// Leaf returns the model-facing name: `tool_web_search`, `core_doc_ingest`,
// `skill_deep_research_cite`. A core name that begins with core_ is not prefixed
// again. Different origins may share a leaf: see Collisions. It returns
// INVALID_NAME for what Check refuses and for a leaf over LeafMax characters.
func Leaf(o Origin) (string, error) {
	if err := o.Check(); err != nil {
		return "", err
	}
	leaf := string(o.Scope) + "_" + o.name()
	if o.Scope.hasSub() {
		leaf = string(o.Scope) + "_" + o.Sub + "_" + o.Name
	}
	if o.Scope == Core && strings.HasPrefix(o.name(), corePrefix) {
		leaf = o.name()
	}
	if len(leaf) > LeafMax {
		return "", badName("leaf", leaf, "at most 64 characters, which is what model providers accept: shorten the tool's name")
	}
	return leaf, nil
}

// PermID returns the permission id: `tool:web_search`, `plugin:fs/read`. Of a
// targetable scope it is the selector that matches this origin only. It returns
// INVALID_NAME for what Check refuses.
func PermID(o Origin) (string, error) {
	if err := o.Check(); err != nil {
		return "", err
	}
	return o.id(), nil
}

// ParsePermID returns the origin of a permission id, the inverse of PermID, or
// INVALID_NAME.
func ParsePermID(id string) (Origin, error) {
	scope, rest, ok := strings.Cut(id, ":")
	if !ok {
		return Origin{}, badName("permission id", id, "scope:name or scope:sub/name")
	}
	o := Origin{Scope: Scope(scope), Name: rest}
	if o.Scope.hasSub() {
		o.Sub, o.Name, ok = strings.Cut(rest, "/")
		if !ok {
			return Origin{}, badName("permission id", id, scope+":sub/name")
		}
	}
	if err := o.Check(); err != nil {
		return Origin{}, err
	}
	o.Name = o.name()
	return o, nil
}

// id is the permission id of an origin that passed Check.
func (o Origin) id() string {
	if o.Scope.hasSub() {
		return string(o.Scope) + ":" + o.Sub + "/" + o.Name
	}
	return string(o.Scope) + ":" + o.name()
}

// name is the name without the prefix core_ that built-ins may carry: core_x
// and x are one tool of scope core, so that a deny of either spelling holds.
func (o Origin) name() string {
	if o.Scope == Core {
		return trimCore(o.Name)
	}
	return o.Name
}

// trimCore drops leading core_ as long as a name or pattern is left.
func trimCore(s string) string {
	for {
		rest, ok := strings.CutPrefix(s, corePrefix)
		if !ok || !segmentRE.MatchString(rest) {
			return s
		}
		s = rest
	}
}

func checkName(kind, name string, max int) error {
	if nameRE.MatchString(name) && len(name) <= max {
		return nil
	}
	want := "lowercase snake_case, at most 32 characters"
	if max == PluginToolMax {
		want = "lowercase snake_case, at most 64 characters"
	}
	return badName(kind, name, want)
}

func badName(kind, value, want string) error {
	value = clip(value)
	return fault.New(fault.InvalidName, "%s %q: expected %s", kind, value, want).
		With("kind", kind).With("value", value)
}

// clip bounds what a fault repeats of its input.
func clip(s string) string {
	if len(s) <= quotedMax {
		return s
	}
	return strings.ToValidUTF8(s[:quotedMax], "") + "…"
}
