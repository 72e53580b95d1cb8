package toolexec_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/toolexec"
)

const hooked = `
-- crumb.yaml --
groups: {scripts: {}}
hooks:
  onSuspend: {nats: hook.notify}
  onError: {nats: hook.nobody}
-- agents/writer/agent.yaml --
model: {provider: script, model: main}
output: {format: {custom: lines, exec: [sh, -c, "cat; echo >&2 ok"]}}
hooks:
  beforeRun:
    - {exec: [sh, guard.sh]}
    - {exec: ["true"]}
    - {nats: hook.guard}
  afterRun: {exec: [sh, -c, "echo no disk >&2; exit 3"]}
-- agents/writer/guard.sh --
grep -q '"topic":"x"' && printf '{"action":"continue","input":"%s %s %s"}' "$CRUMB_HOOK_POINT" "$CRUMB_RUN_ID" "$CRUMB_AGENT_ID"
-- agents/writer/scripts/main.yaml --
turns:
  - text: hi
`

// sendProgram sends a call of a hook or a parser.
func sendProgram(t *testing.T, conn *mesh.Conn, a agent.Announcement, id crumbs.CallID, point, args string) {
	t.Helper()
	sum := sha256.Sum256([]byte(args))
	at := crumbs.At(time.Now().Add(time.Minute))
	call := crumbs.ToolCall{Type: crumbs.TypeToolCall, Kind: string(a.Kind), RunID: id.Run(), AgentID: "writer", SessionID: "ses_1",
		CallID: id, Attempt: 1, Handler: a.Handler, ToolHash: a.Hash(), Group: a.Group, Effect: a.Effect,
		Args: json.RawMessage(args), ArgsHash: hex.EncodeToString(sum[:]), StartBefore: at, DeadlineAt: at, TimeoutMs: a.TimeoutMs,
		Permission: crumbs.Permission{Verdict: crumbs.VerdictAllow}}
	if point != "" {
		call.Hook = &crumbs.HookRef{Name: "named", Point: point}
	}
	body, err := json.Marshal(call)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Publish(t.Context(), &nats.Msg{Subject: crumbs.ToolCallSubject(a.Group, id.Run()), Data: body}); err != nil {
		t.Fatal(err)
	}
}

// Commands and subjects of a folder are hooks and parsers of the group, under the
// hashes that its files pin; what fails in them is told, and is no consent (F089, F090).
func TestRun_HooksAndParsersOfAFolder_F089_F090(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, meshtest.WithTopology([]string{agent.DefaultGroup}, nil))
	dir := folder(t, hooked)
	results := make(chan *nats.Msg, 8)
	if _, err := m.Conn.NATS.ChanSubscribe("tool.result.>", results); err != nil {
		t.Fatal(err)
	}
	notes := make(chan *nats.Msg, 1)
	for subject, answer := range map[string]func(*nats.Msg){
		"hook.guard": func(msg *nats.Msg) {
			if msg.Header.Get("crumb-hook-point") == crumbs.HookBeforeRun && msg.Header.Get("crumb-run-id") == "run_1" && strings.Contains(string(msg.Data), "refuse") {
				reply := nats.NewMsg(msg.Reply)
				reply.Header.Set("Nats-Service-Error-Code", "403")
				reply.Header.Set("Nats-Service-Error", "not for you")
				_ = msg.RespondMsg(reply)
				return
			}
			_ = msg.Respond([]byte(`{"action":"shortCircuit","output":[]}`))
		},
		"hook.notify": func(msg *nats.Msg) { notes <- msg; _ = msg.Respond([]byte("thanks")) },
	} {
		if _, err := m.Conn.NATS.Subscribe(subject, answer); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- toolexec.Run(ctx, toolexec.Config{Dir: dir, Verify: verify, Ready: func() { close(ready) }}, m.Connect("toolexec"))
	}()
	<-ready
	announced := announcements(t, m.Conn)
	loaded, err := agent.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range loaded.ExecTools() {
		if a := announced[e.Announcement.Handler]; a.Hash() != e.Announcement.Hash() {
			t.Errorf("%s is announced as %+v, the project has %+v", e.Announcement.Handler, a, e.Announcement)
		}
	}
	const before, input = crumbs.HookBeforeRun, `{"scope":"agent","input":{"topic":"x"}}`
	for i, tc := range []struct {
		handler, point, args string
		want                 string
		code                 fault.Code
		says                 string
	}{
		{"writer/hook-before_run-0", before, input, `{"action":"continue","input":"beforeRun run_1 writer"}`, "", ""},
		{"writer/hook-before_run-0", before, `{"scope":"agent","input":{}}`, "", fault.HookError, "exit status 1"},
		{"writer/hook-before_run-1", before, input, `null`, "", ""},
		{"writer/hook-before_run-2", before, input, `{"action":"shortCircuit","output":[]}`, "", ""},
		{"writer/hook-before_run-2", before, `{"scope":"agent","input":"refuse"}`, "", fault.HookError, "403: not for you"},
		{"writer/hook-after_run-0", crumbs.HookAfterRun, input, "", fault.HookError, "no disk"},
		{"writer/parse-lines", "", `{"text":"a"}`, `{"text":"a"}`, "", ""},
		{"hooks/on_suspend-0", crumbs.HookOnSuspend, input, `null`, "", ""},
		{"hooks/on_error-0", crumbs.HookOnError, input, "", fault.HookError, "nobody listens on hook.nobody"},
	} {
		a, ok := announced[tc.handler]
		if !ok {
			t.Fatalf("%s is not announced: %v", tc.handler, announced.handlers())
		}
		kind := "h"
		if tc.point == "" {
			kind = "p"
		}
		sendProgram(t, m.Conn, a, crumbs.CallID("run_1."+string(rune('1'+i))+"."+kind+"0"), tc.point, tc.args)
		var r crumbs.ToolResult
		if err := json.Unmarshal((<-results).Data, &r); err != nil {
			t.Fatal(err)
		}
		if string(r.Result) != tc.want || tc.code == "" && r.Status != crumbs.StatusOK {
			t.Errorf("%s %s: %s, %v, result %s", tc.handler, tc.args, r.Status, r.Error, r.Result)
		}
		if tc.code != "" && (r.Error == nil || r.Error.Code != tc.code || !strings.Contains(r.Error.Message, tc.says)) {
			t.Errorf("%s %s: %v, want %s saying %q", tc.handler, tc.args, r.Error, tc.code, tc.says)
		}
	}
	if note := <-notes; string(note.Data) != input {
		t.Errorf("told %s", note.Data)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// No file forges a command of the mesh.
func TestRun_HookMayNotAskTheMesh(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, meshtest.WithTopology([]string{agent.DefaultGroup}, nil))
	for _, subject := range []string{"crumbmesh.runs.start", "approval.decision.run_1.x", "run.control.run_1"} {
		if _, err := m.Conn.Ask(t.Context(), subject, nil, nil); fault.CodeOf(err) != fault.InvalidConfig {
			t.Errorf("%s: %v", subject, err)
		}
		bad := folder(t, strings.Replace(hooked, "hook.notify", subject, 1))
		if err := toolexec.Run(t.Context(), toolexec.Config{Dir: bad, Verify: verify}, m.Conn); err == nil || !strings.Contains(err.Error(), "the mesh's own") {
			t.Errorf("%s: %v", subject, err)
		}
	}
}
