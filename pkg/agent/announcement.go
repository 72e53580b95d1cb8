package agent

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// Announcement is what a worker writes into bucket `tools` for each tool it
// serves. It belongs to nobody until a tool file brings it in.
type Announcement struct {
	Group         string          `json:"group"`
	Handler       string          `json:"handler"` // `<name>`, or `<agent>/<name>` for an exec tool of an agent's folder
	Description   string          `json:"description,omitempty"`
	Schema        json.RawMessage `json:"schema,omitempty"`       // of the arguments; absent means any object
	OutputSchema  json.RawMessage `json:"outputSchema,omitempty"` // of the result; absent means any value
	Effect        crumbs.Effect   `json:"effect,omitempty"`       // once when absent
	Stream        bool            `json:"stream,omitempty"`
	TimeoutMs     int64           `json:"timeoutMs,omitempty"` // DefaultTimeoutMs when 0
	IdleTimeoutMs int64           `json:"idleTimeoutMs,omitempty"`
	Digest        string          `json:"digest,omitempty"` // of what runs, where the announcer knows it: an exec tool's command, environment names and folder
}

// Key is the announcement's key in bucket `tools`: `<group>.<agent>.<name>`,
// with `_` for the agent of a tool that is nobody's.
func (a Announcement) Key() string { return AnnouncementKey(a.Group, a.Handler) }

// AnnouncementKey is the key of what group announced under handler.
func AnnouncementKey(group, handler string) string {
	owner, name, ok := strings.Cut(handler, "/")
	if !ok {
		owner, name = "_", handler
	}
	return group + "." + owner + "." + name
}

// Hash identifies the announcement: the first 16 hex digits of the SHA-256 of
// its canonical JSON (RFC 8785). A call carries it (`toolHash`), so that a
// worker that serves another version of the tool does not run it. Absent and
// default values (effect once, the default timeout, the schema of any object)
// hash alike. It is "" for an announcement that Check refuses as no JSON.
func (a Announcement) Hash() string { return fingerprint(a.filled(), shortHash) }

// Check returns INVALID_NAME or INVALID_CONFIG for an announcement that no tool
// file could bring in: names outside their grammar, an unusable schema, an
// unknown effect, a bound out of range. Announcements come from untrusted
// workers, so whoever reads the bucket checks.
func (a Announcement) Check() error {
	c := new(checker)
	at := place{}
	c.name(at.key("group"), "group", a.Group)
	c.handler(at.key("handler"), a.Handler)
	c.description(at, a.Description)
	c.objectSchema(at.key("schema"), a.Schema)
	c.schema(at.key("outputSchema"), a.OutputSchema)
	c.effect(at, a.Effect)
	c.timeouts(at, a.Stream, a.TimeoutMs, a.IdleTimeoutMs)
	return c.first()
}

// filled is the announcement with its defaults.
func (a Announcement) filled() Announcement {
	a.Schema = orAnyObject(a.Schema)
	if isAbsent(a.OutputSchema) {
		a.OutputSchema = nil
	}
	if a.Effect == "" {
		a.Effect = crumbs.EffectOnce
	}
	if a.TimeoutMs == 0 {
		a.TimeoutMs = DefaultTimeoutMs
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
