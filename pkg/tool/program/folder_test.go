package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/program"
)

// What a program leaves in its folder is stored when it succeeds; the folder is gone
// with the call.
func TestProgram_FilesOfACall(t *testing.T) {
	t.Parallel()
	type result struct {
		Files []crumbs.File `json:"files"`
		Dir   string        `json:"dir"`
	}
	call := func(script string, stream bool) (result, error) {
		files := tool.MemoryFiles("run_1")
		p := program.Program{Command: []string{"sh", "-c", script}, Stream: stream}
		raw, err := p.Tool("p", "d").Run(tool.Context{Context: t.Context(), RunID: "run_1", Files: files}, json.RawMessage(`{}`), nil)
		var r result
		if err == nil {
			if err := json.Unmarshal(raw, &r); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
		}
		for _, f := range r.Files {
			if data, err := files.Get(t.Context(), f.URI); err != nil || !strings.HasPrefix(string(data), "in ") {
				t.Errorf("%s: %q, %v", f.URI, data, err)
			}
		}
		return r, err
	}
	r, err := call(`cd "$CRUMB_FILES_DIR"; echo in b >b.html; echo in a >a`, false)
	if err != nil || len(r.Files) != 2 || r.Files[0].Name != "a" || r.Files[0].MimeType != "application/octet-stream" || !strings.HasPrefix(r.Files[1].MimeType, "text/html") {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = call(`echo in a >"$CRUMB_FILES_DIR/a"; echo "{\"dir\":\"$CRUMB_FILES_DIR\"}"`, false)
	if err != nil || r.Dir == "" || len(r.Files) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := os.Stat(r.Dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", r.Dir, err)
	}
	if _, err = call(`echo in a >"$CRUMB_FILES_DIR/a"; echo '{}'`, true); err != nil {
		t.Error(err)
	}
	for _, script := range []string{`ln -s /etc/hostname "$CRUMB_FILES_DIR/a"`, `mkdir "$CRUMB_FILES_DIR/a"; echo 1`} {
		if _, err = call(script, false); fault.CodeOf(err) != fault.ToolError || !strings.Contains(err.Error(), "is no file") {
			t.Errorf("%s: %v", script, err)
		}
	}
	if _, err = call(`rm -r "$CRUMB_FILES_DIR"; echo '{}'`, false); err != nil {
		t.Error(err)
	}
	if _, err = call(`echo in a >"$CRUMB_FILES_DIR/a"; exit 1`, false); fault.CodeOf(err) != fault.ToolError {
		t.Error(err)
	}
}

// A program knows its call: on whose behalf, in which trace, at which point.
func TestProgram_KnowsItsCall(t *testing.T) {
	t.Parallel()
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	ctx := tool.Context{Context: trace.ContextWithSpanContext(context.Background(), span), RunID: "run_1", AgentID: "writer", SessionID: "ses_1", CallID: "run_1.1.h0",
		Principal: &crumbs.Principal{Issuer: "i", Subject: "s"}, Hook: &crumbs.HookRef{Name: "guard", Point: crumbs.HookBeforeRun}}
	h := sh(`printf '{"action":"continue","input":["%s","%s","%s","%s",%s,"%s","%s"]}' "$CRUMB_HOOK_NAME" "$CRUMB_HOOK_POINT" "$CRUMB_AGENT_ID" "$CRUMB_SESSION_ID" "$CRUMB_PRINCIPAL" "$TRACEPARENT" "$CRUMB_FILES_DIR"`).
		Hook("writer/hook-before_run-0", []string{crumbs.HookBeforeRun})
	got, err := h.Run(ctx, json.RawMessage(`{"scope":"agent","input":{}}`), nil)
	want := fmt.Sprintf(`{"action":"continue","input":["guard","beforeRun","writer","ses_1",{"iss":"i","sub":"s"},"00-%s-%s-01",""]}`, span.TraceID(), span.SpanID())
	if err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

func TestProgram_HooksAndParsers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script, point, want string
		code                fault.Code
	}{
		"nothing is no opinion":  {`true`, crumbs.HookBeforeRun, "null", ""},
		"observers say anything": {`echo thanks`, crumbs.HookOnSuspend, "null", ""},
		"recover":                {`echo '{"action":"recover","output":null}'`, crumbs.HookOnError, `{"action":"recover","output":null}`, ""},
		"text":                   {`echo fine`, crumbs.HookBeforeRun, "", fault.HookError},
		"deny":                   {`echo '{"deny":true}'`, crumbs.HookBeforeRun, "", fault.HookError},
		"failed":                 {`exit 2`, crumbs.HookOnSuspend, "", fault.HookError},
	} {
		h := sh(tc.script).Hook("writer/hook-x-0", crumbs.HookPoints())
		got, err := h.Run(tool.Context{Context: t.Context(), Hook: &crumbs.HookRef{Name: "h", Point: tc.point}}, json.RawMessage(`{}`), nil)
		if fault.CodeOf(err) != tc.code || string(got) != tc.want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	p := sh(`cat`).Parser("writer/parse-lines")
	if got, err := p.Run(tool.Context{Context: t.Context()}, json.RawMessage(`{"text":"a"}`), nil); err != nil || string(got) != `{"text":"a"}` {
		t.Errorf("%s, %v", got, err)
	}
}
