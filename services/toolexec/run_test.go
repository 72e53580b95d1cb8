package toolexec_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/services/toolexec"
)

const project = `
-- crumb.yaml --
groups:
  scripts: {}
  other: {}
-- agents/writer/agent.yaml --
model: {provider: script, model: main}
-- agents/writer/scripts/main.yaml --
turns:
  - text: hi
-- agents/writer/tools/shout.yaml --
description: Writes in capitals.
schema: {type: object, properties: {text: {type: string}}, required: [text]}
exec: [sh, shout.sh]
effect: pure
timeoutMs: 30000
-- agents/writer/tools/shout.sh --
tr a-z A-Z | sed 's/"TEXT"/"text"/'
-- agents/writer/tools/steps.yaml --
description: Works in steps.
exec: [sh, -c, "echo 1; echo 2; echo \"\\\"$CRUMB_CALL_ID\\\"\""]
stream: true
idleTimeoutMs: 20000
-- agents/writer/tools/elsewhere.yaml --
description: Is another group's.
exec: [sh, -c, "echo 1"]
group: other
`

func folder(t *testing.T, files string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(files)).Files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func verify(crumbs.Decision) error { return nil }

// One mesh for all: a process has one nats-server at a time in tests.
func TestRun(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, meshtest.WithTopology([]string{agent.DefaultGroup, "other"}, nil))
	dir := folder(t, project)

	for name, tc := range map[string]struct {
		cfg  toolexec.Config
		code fault.Code
		say  string
	}{
		"no key":          {toolexec.Config{Dir: dir}, fault.InvalidConfig, "CRUMB_APPROVALS_PUBKEY"},
		"group name":      {toolexec.Config{Dir: dir, Verify: verify, Group: "My-Group"}, fault.InvalidName, "my_group"},
		"nothing there":   {toolexec.Config{Dir: dir, Verify: verify, Group: "lab"}, fault.InvalidConfig, "other, scripts"},
		"nothing at all":  {toolexec.Config{Verify: verify}, fault.InvalidConfig, "0 tools"},
		"group, no queue": {toolexec.Config{Verify: verify, Group: "lab", Tools: []tool.Tool{greet()}}, fault.TopologyMissing, "name lab under `groups`"},
	} {
		err := toolexec.Run(t.Context(), tc.cfg, m.Conn)
		if fault.CodeOf(err) != tc.code || !strings.Contains(err.Error(), tc.say) {
			t.Errorf("%s: got %v, want %s saying %q", name, err, tc.code, tc.say)
		}
	}
	broken := folder(t, strings.Replace(project, "exec: [sh, shout.sh]", "exec: []", 1))
	if err := toolexec.Run(t.Context(), toolexec.Config{Dir: broken, Verify: verify}, m.Conn); err == nil || !strings.Contains(err.Error(), "shout.yaml") {
		t.Errorf("a broken folder: %v", err)
	}

	results := make(chan *nats.Msg, 8)
	if _, err := m.Conn.NATS.ChanSubscribe("tool.result.>", results); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	var health func() error
	go func() {
		done <- toolexec.Run(ctx, toolexec.Config{Dir: dir, Tools: []tool.Tool{greet()}, Verify: verify,
			Ready: func() { close(ready) }, Health: func(check func() error) { health = check }}, m.Connect("toolexec"))
	}()
	<-ready
	if err := health(); err != nil {
		t.Error(err)
	}

	announced := announcements(t, m.Conn)
	if d := cmp.Diff([]string{"greet", "writer/shout", "writer/steps"}, announced.handlers()); d != "" {
		t.Error(d)
	}
	loaded, err := agent.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range loaded.ExecTools() {
		if a, ok := announced[e.Announcement.Handler]; ok && a.Hash() != e.Announcement.Hash() {
			t.Errorf("%s is announced with another hash than the project's", e.Announcement.Handler)
		}
	}
	for i, tc := range []struct{ handler, args, want string }{
		{"writer/shout", `{"text":"banana"}`, `{"text":"BANANA"}`},
		{"writer/steps", `{}`, `"run_1.1.1"`},
		{"greet", `{"name":"Ada"}`, `"hello Ada"`},
	} {
		send(t, m.Conn, announced[tc.handler], crumbs.ToolCallID("run_1", 1, i), tc.args)
		var r crumbs.ToolResult
		msg := <-results
		if err := json.Unmarshal(msg.Data, &r); err != nil {
			t.Fatal(err)
		}
		if r.Status != crumbs.StatusOK || string(r.Result) != tc.want {
			t.Errorf("%s: %s, %v, result %s", tc.handler, r.Status, r.Error, r.Result)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func greet() tool.Tool {
	type in struct {
		Name string `json:"name"`
	}
	return tool.Define("greet", "Greets.", func(_ tool.Context, in in) (string, error) { return "hello " + in.Name, nil })
}

type byHandler map[string]agent.Announcement

func (b byHandler) handlers() []string { return slices.Sorted(maps.Keys(b)) }

func announcements(t *testing.T, conn *mesh.Conn) byHandler {
	t.Helper()
	all := byHandler{}
	if err := conn.Bucket(crumbs.BucketTools).List(t.Context(), ">", func(r mesh.Record) bool {
		var a agent.Announcement
		if err := json.Unmarshal(r.Value, &a); err != nil || a.Key() != r.Key || a.Check() != nil {
			t.Errorf("announcement %s: %s, %v", r.Key, r.Value, err)
		}
		all[a.Handler] = a
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func send(t *testing.T, conn *mesh.Conn, a agent.Announcement, id crumbs.CallID, args string) {
	t.Helper()
	hash, err := argument.Hash(json.RawMessage(args))
	if err != nil {
		t.Fatal(err)
	}
	at := crumbs.At(time.Now().Add(time.Minute))
	body, err := json.Marshal(crumbs.ToolCall{Type: crumbs.TypeToolCall, Kind: crumbs.KindTool, RunID: id.Run(), AgentID: "writer", SessionID: "ses_1",
		CallID: id, Attempt: 1, Handler: a.Handler, ToolHash: a.Hash(), Group: a.Group, Effect: a.Effect,
		Args: json.RawMessage(args), ArgsHash: hash, StartBefore: at, DeadlineAt: at, TimeoutMs: a.TimeoutMs,
		Permission: crumbs.Permission{Verdict: crumbs.VerdictAllow}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Publish(t.Context(), &nats.Msg{Subject: crumbs.ToolCallSubject(a.Group, id.Run()), Data: body}); err != nil {
		t.Fatal(err)
	}
}
