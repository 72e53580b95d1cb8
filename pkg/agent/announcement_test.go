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
		if got := agent.AnnouncementKey(agent.AnnouncedTool, "demo", handler); got != want {
			t.Errorf("key %q, want %q", got, want)
		}
	}
	if got := pay().Key(); got != "demo._.publish" {
		t.Errorf("key %q", got)
	}
	for want, a := range map[string]agent.Announcement{
		"audit._hook.check":              {Kind: agent.AnnouncedHook, Group: "audit", Handler: "check"},
		"audit._parse.lines":             {Kind: agent.AnnouncedParse, Group: "audit", Handler: "lines"},
		"audit._.confirm":                {Kind: agent.AnnouncedHuman, Group: "audit", Handler: "confirm"},
		"scripts.hooks.before_run-0":     {Kind: agent.AnnouncedHook, Group: "scripts", Handler: "hooks/before_run-0"},
		"scripts.clerk.hook-after_run-1": {Kind: agent.AnnouncedHook, Group: "scripts", Handler: "clerk/hook-after_run-1"},
		"scripts.clerk.parse-lines":      {Kind: agent.AnnouncedParse, Group: "scripts", Handler: "clerk/parse-lines"},
	} {
		if got := a.Key(); got != want {
			t.Errorf("key %q, want %q", got, want)
		}
	}
}

func TestAnnouncement_kinds(t *testing.T) {
	t.Parallel()
	hook := agent.Announcement{Kind: agent.AnnouncedHook, Group: "audit", Handler: "check", Points: []string{crumbs.HookBeforeRun, crumbs.HookOnError}}
	parse := agent.Announcement{Kind: agent.AnnouncedParse, Group: "audit", Handler: "lines"}
	human := agent.Announcement{Kind: agent.AnnouncedHuman, Group: "audit", Handler: "confirm", Description: "Asks.", Prompt: "Sure?", AnswerSchema: json.RawMessage(`{"type":"boolean"}`)}
	for _, a := range []agent.Announcement{hook, parse, human} {
		if err := a.Check(); err != nil {
			t.Errorf("%s: %v", a.Kind, err)
		}
	}
	long := hook
	long.Effect, long.TimeoutMs = crumbs.EffectIdempotent, agent.DefaultHookTimeoutMs
	if long.Hash() != hook.Hash() {
		t.Error("a hook's defaults change its hash")
	}
	asked := human
	asked.ExpiresMs = agent.DefaultExpiresMs
	if asked.Hash() != human.Hash() {
		t.Error("a question's defaults change its hash")
	}
	if tool := (agent.Announcement{Group: "audit", Handler: "lines"}); tool.Hash() == parse.Hash() {
		t.Error("a parser hashes as a tool of that name")
	}
	for _, one := range []struct {
		want   string
		of     agent.Announcement
		change func(*agent.Announcement)
	}{
		{"INVALID_CONFIG: kind: expected hook, parse or human", hook, func(a *agent.Announcement) { a.Kind = "tool" }},
		{"INVALID_NAME: handler: hook name", hook, func(a *agent.Announcement) { a.Handler = "Check" }},
		{"INVALID_NAME: handler: expected the name of a hook, or", hook, func(a *agent.Announcement) { a.Handler = "clerk/check" }},
		{"INVALID_CONFIG: points: expected some of", hook, func(a *agent.Announcement) { a.Points = nil }},
		{"INVALID_CONFIG: points[0]: expected", hook, func(a *agent.Announcement) { a.Points = []string{"before"} }},
		{"INVALID_CONFIG: points[1]: ", hook, func(a *agent.Announcement) { a.Points = []string{crumbs.HookOnError, crumbs.HookOnError} }},
		{"INVALID_CONFIG: schema: an announcement of kind hook", hook, func(a *agent.Announcement) { a.Schema = json.RawMessage(`{}`) }},
		{"INVALID_CONFIG: points: an announcement of kind parse", parse, func(a *agent.Announcement) { a.Points = []string{crumbs.HookOnError} }},
		{"INVALID_CONFIG: stream: an announcement of kind parse", parse, func(a *agent.Announcement) { a.Stream = true }},
		{"INVALID_CONFIG: timeoutMs: expected an integer", parse, func(a *agent.Announcement) { a.TimeoutMs = agent.TimeoutMsMax + 1 }},
		{"INVALID_NAME: handler: tool name", human, func(a *agent.Announcement) { a.Handler = "clerk/confirm" }},
		{"INVALID_CONFIG: effect: an announcement of kind human", human, func(a *agent.Announcement) { a.Effect = crumbs.EffectPure }},
		{"INVALID_CONFIG: answerSchema: ", human, func(a *agent.Announcement) { a.AnswerSchema = json.RawMessage(`{"type":7}`) }},
		{"INVALID_CONFIG: expiresMs: expected", human, func(a *agent.Announcement) { a.ExpiresMs = agent.ExpiresMsMax + 1 }},
		{"INVALID_CONFIG: prompt: an announcement of kind tool", agent.Announcement{Group: "audit", Handler: "x"}, func(a *agent.Announcement) { a.Prompt = "Sure?" }},
	} {
		one.change(&one.of)
		if err := one.of.Check(); err == nil || !strings.HasPrefix(err.Error(), one.want) {
			t.Errorf("got %v, want %s", err, one.want)
		}
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
