package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// programRE is the handler of a hook or parser that is a command of the project.
var programRE = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}/[a-z][a-z0-9_]{0,31}(-[a-z0-9_]{1,32}){1,3}$`)

// Announced is what an announcement is of.
type Announced string

// What workers announce.
const (
	AnnouncedTool  Announced = ""               // a tool that the worker runs
	AnnouncedHook  Announced = crumbs.KindHook  // code that the mesh calls at a point of a run or of a tool call
	AnnouncedParse Announced = crumbs.KindParse // the parser of a custom output format
	AnnouncedHuman Announced = "human"          // a question to a person: declared in a worker, run by nobody
)

// Announcement is what a worker writes into bucket `tools` for each tool, hook and
// parser it serves. It belongs to nobody until a file brings it in.
type Announcement struct {
	Kind          Announced       `json:"kind,omitempty"`
	Group         string          `json:"group"`
	Handler       string          `json:"handler"` // `<name>`, or `<owner>/<rest>` for a command of the project: publisher/word_count, hooks/before_run-0
	Description   string          `json:"description,omitempty"`
	Schema        json.RawMessage `json:"schema,omitempty"`       // of the arguments, of a question: what the model asks; absent means any object
	OutputSchema  json.RawMessage `json:"outputSchema,omitempty"` // of the result; absent means any value
	Effect        crumbs.Effect   `json:"effect,omitempty"`       // once when absent; of a hook and a parser idempotent
	Stream        bool            `json:"stream,omitempty"`
	TimeoutMs     int64           `json:"timeoutMs,omitempty"` // DefaultTimeoutMs when 0; of a hook and a parser DefaultHookTimeoutMs
	IdleTimeoutMs int64           `json:"idleTimeoutMs,omitempty"`
	Digest        string          `json:"digest,omitempty"`       // of what runs, where the announcer knows it: a command, environment names and folder
	Points        []string        `json:"points,omitempty"`       // of a hook: where it may be called, crumbs.HookPoints
	AnswerSchema  json.RawMessage `json:"answerSchema,omitempty"` // of a question; absent means any value
	Prompt        string          `json:"prompt,omitempty"`       // of a question: shown above it
	ExpiresMs     int64           `json:"expiresMs,omitempty"`    // of a question: how long it waits; DefaultExpiresMs when 0
}

// Key is the announcement's key in bucket `tools`, see AnnouncementKey.
func (a Announcement) Key() string { return AnnouncementKey(a.Kind, a.Group, a.Handler) }

// AnnouncementKey is the key of what group announced under handler:
// `<group>.<owner>.<rest>` for a command of the project, else
// `<group>._.<name>` for a tool and a question, `<group>._hook.<name>` for a hook
// and `<group>._parse.<name>` for a parser, so that a hook and a tool may share a
// name.
func AnnouncementKey(kind Announced, group, handler string) string {
	owner, name, ok := strings.Cut(handler, "/")
	if !ok {
		owner, name = "_", handler
		if kind == AnnouncedHook || kind == AnnouncedParse {
			owner += string(kind)
		}
	}
	return group + "." + owner + "." + name
}

// Hash identifies the announcement: the first 16 hex digits of the SHA-256 of
// its canonical JSON (RFC 8785). A call carries it (`toolHash`), so that a
// worker that serves another version of the tool does not run it. Absent and
// default values (the effect, the timeout, the schema of any object) hash alike.
// It is "" for an announcement that Check refuses as no JSON.
func (a Announcement) Hash() string { return fingerprint(a.filled(), shortHash) }

// Check returns INVALID_NAME or INVALID_CONFIG for an announcement that no file
// could bring in: an unknown kind, fields of another kind, names outside their
// grammar, an unusable schema, an unknown effect or point, a bound out of range.
// Announcements come from untrusted workers, so whoever reads the bucket checks.
func (a Announcement) Check() error {
	c := new(checker)
	at := place{}
	c.name(at.key("group"), "group", a.Group)
	c.description(at, a.Description)
	switch a.Kind {
	case AnnouncedTool:
		c.handler(at.key("handler"), a.Handler)
		c.objectSchema(at.key("schema"), a.Schema)
		c.schema(at.key("outputSchema"), a.OutputSchema)
	case AnnouncedHook:
		c.programHandler(at.key("handler"), "hook", a.Handler)
		c.points(at.key("points"), a.Points)
	case AnnouncedParse:
		c.programHandler(at.key("handler"), "parser", a.Handler)
	case AnnouncedHuman:
		c.name(at.key("handler"), "tool", a.Handler)
		c.objectSchema(at.key("schema"), a.Schema)
		c.human(at, &Human{AnswerSchema: a.AnswerSchema, Prompt: a.Prompt, ExpiresMs: cmp.Or(a.ExpiresMs, DefaultExpiresMs)})
	default:
		c.oneOf(at.key("kind"), string(a.Kind), string(AnnouncedHook), string(AnnouncedParse), string(AnnouncedHuman))
	}
	c.effect(at, a.Effect)
	c.timeouts(at, a.Stream, a.TimeoutMs, a.IdleTimeoutMs)
	c.foreign(a)
	return c.first()
}

// foreign checks that a has no field of another kind.
func (c *checker) foreign(a Announcement) {
	tool, hook, human := a.Kind == AnnouncedTool, a.Kind == AnnouncedHook, a.Kind == AnnouncedHuman
	for _, f := range []struct {
		name    string
		set, is bool
	}{
		{"schema", !isAbsent(a.Schema), tool || human}, {"outputSchema", !isAbsent(a.OutputSchema), tool},
		{"effect", a.Effect != "", !human}, {"stream", a.Stream, tool}, {"timeoutMs", a.TimeoutMs != 0, !human},
		{"points", len(a.Points) > 0, hook}, {"answerSchema", !isAbsent(a.AnswerSchema), human},
		{"prompt", a.Prompt != "", human}, {"expiresMs", a.ExpiresMs != 0, human},
	} {
		if f.set && !f.is {
			c.bad(place{f.name}, "an announcement of kind %s has no such field: remove it", cmp.Or(string(a.Kind), "tool"))
		}
	}
}

// programHandler checks the handler of a hook or a parser: the name it was
// registered under, or that of a command of the project.
func (c *checker) programHandler(at place, kind, value string) {
	if !OfProject(value) {
		c.name(at, kind, value)
		return
	}
	if !programRE.MatchString(value) {
		c.fail(at, fault.New(fault.InvalidName, "expected the name of a %s, or <owner>/<what>-<point>-<n> for a command of the project, got %s", kind, quote(value)).
			With("kind", kind).With("value", clip(value)))
	}
}

// points checks where a hook says that it may be called.
func (c *checker) points(at place, points []string) {
	if len(points) == 0 {
		c.bad(at, "expected some of %s, got none", orList(crumbs.HookPoints()))
	}
	for i, p := range points[:min(len(points), len(crumbs.HookPoints())+1)] {
		c.oneOf(at.index(i), p, crumbs.HookPoints()...)
		if slices.Contains(points[:i], p) {
			c.bad(at.index(i), "%s stands twice: remove one", quote(p))
		}
	}
}

// filled is the announcement with its defaults.
func (a Announcement) filled() Announcement {
	if isAbsent(a.OutputSchema) {
		a.OutputSchema = nil
	}
	if isAbsent(a.AnswerSchema) {
		a.AnswerSchema = nil
	}
	switch a.Kind {
	case AnnouncedHook, AnnouncedParse:
		a.Schema = nil
		a.Effect = cmp.Or(a.Effect, crumbs.EffectIdempotent)
		a.TimeoutMs = cmp.Or(a.TimeoutMs, DefaultHookTimeoutMs)
	case AnnouncedHuman:
		a.Schema = orAnyObject(a.Schema)
		a.ExpiresMs = cmp.Or(a.ExpiresMs, DefaultExpiresMs)
	default:
		a.Schema = orAnyObject(a.Schema)
		a.Effect = cmp.Or(a.Effect, crumbs.EffectOnce)
		a.TimeoutMs = cmp.Or(a.TimeoutMs, DefaultTimeoutMs)
	}
	return a
}

// anyObject is the schema of a tool that declares none: model providers insist
// on the type.
const anyObject = `{"type":"object"}`

// isAbsent reports whether an optional JSON document says nothing.
func isAbsent(raw json.RawMessage) bool {
	text := bytes.TrimSpace(raw)
	return len(text) == 0 || string(text) == "null"
}
