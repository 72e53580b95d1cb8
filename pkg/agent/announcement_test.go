package agent_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

func TestAnnouncement_hash(t *testing.T) {
	t.Parallel()
	a := pay()
	want := a.Hash()
	if !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(want) {
		t.Fatalf("hash %q", want)
	}
	same := a
	same.Schema = json.RawMessage(` { "properties" : {"title":{"type":"string"}}, "type":"object" } `)
	if got := same.Hash(); got != want {
		t.Errorf("hash %s with the keys in another order, want %s", got, want)
	}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range leafPaths(t, text) {
		var other agent.Announcement
		if err := json.Unmarshal(changed(t, text, path), &other); err != nil {
			t.Fatal(err)
		}
		if other.Hash() == want {
			t.Errorf("a change at %v leaves the hash as it is", path)
		}
	}
}

func TestAnnouncement_absentIsTheDefault(t *testing.T) {
	t.Parallel()
	short := agent.Announcement{Group: "g", Handler: "h", OutputSchema: json.RawMessage("null")}
	long := agent.Announcement{Group: "g", Handler: "h", Schema: json.RawMessage(`{"type":"object"}`), Effect: crumbs.EffectOnce, TimeoutMs: agent.DefaultTimeoutMs}
	if short.Hash() != long.Hash() || short.Hash() == "" {
		t.Errorf("hashes %q and %q", short.Hash(), long.Hash())
	}
	if got := (agent.Announcement{Schema: json.RawMessage("{")}).Hash(); got != "" {
		t.Errorf("what is no JSON has the hash %q", got)
	}
}

func TestAnnouncement_key(t *testing.T) {
	t.Parallel()
	for handler, want := range map[string]string{"publish": "demo._.publish", "publisher/word_count": "demo.publisher.word_count"} {
		if got := agent.AnnouncementKey("demo", handler); got != want {
			t.Errorf("key %q, want %q", got, want)
		}
	}
	if got := pay().Key(); got != "demo._.publish" {
		t.Errorf("key %q", got)
	}
}

func TestAnnouncement_check(t *testing.T) {
	t.Parallel()
	if err := pay().Check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*agent.Announcement){
		"INVALID_NAME: group:":           func(a *agent.Announcement) { a.Group = "a.b" },
		"INVALID_NAME: handler:":         func(a *agent.Announcement) { a.Handler = "Has-Upper" },
		"INVALID_NAME: handler: agent":   func(a *agent.Announcement) { a.Handler = "A/b" },
		"INVALID_NAME: handler: tool":    func(a *agent.Announcement) { a.Handler = "a/b/c" },
		"INVALID_NAME: handler: expect":  func(a *agent.Announcement) { a.Handler = "" },
		"INVALID_CONFIG: description:":   func(a *agent.Announcement) { a.Description = strings.Repeat("x", agent.DescriptionMax+1) },
		"INVALID_CONFIG: schema: the":    func(a *agent.Announcement) { a.Schema = json.RawMessage(`{"$ref":"#/nosuch"}`) },
		"INVALID_CONFIG: schema.type:":   func(a *agent.Announcement) { a.Schema = json.RawMessage(`{"type":"string"}`) },
		"INVALID_CONFIG: outputSchema:":  func(a *agent.Announcement) { a.OutputSchema = json.RawMessage(`{"minimum":1e400}`) },
		"INVALID_CONFIG: effect:":        func(a *agent.Announcement) { a.Effect = "twice" },
		"INVALID_CONFIG: timeoutMs:":     func(a *agent.Announcement) { a.TimeoutMs = -1 },
		"INVALID_CONFIG: idleTimeoutMs:": func(a *agent.Announcement) { a.IdleTimeoutMs = agent.TimeoutMsMax + 1 },
		"INVALID_CONFIG: idleTimeoutMs: only": func(a *agent.Announcement) {
			a.Stream = false
		},
	} {
		a := pay()
		change(&a)
		if err := a.Check(); err == nil || !strings.HasPrefix(err.Error(), want) || fault.CodeOf(err) == "" {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
