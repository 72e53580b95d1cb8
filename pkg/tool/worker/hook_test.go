package worker_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/hook"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

// program is a call of a hook or a parser as the orchestrator makes it.
func program(t *testing.T, tl tool.Tool, kind, suffix string, args any, change ...func(*crumbs.ToolCall)) crumbs.ToolCall {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	return call(t, tl, `{}`, append([]func(*crumbs.ToolCall){func(c *crumbs.ToolCall) {
		c.Kind, c.CallID, c.Tool, c.ToolName = kind, crumbs.CallID(string(run)+"."+suffix), kind+":"+tl.Name(), kind+"_"+tl.Name()
		c.Args, c.ArgsHash = raw, hex.EncodeToString(sum[:])
		if kind == crumbs.KindHook {
			c.Hook = &crumbs.HookRef{Name: tl.Name(), Point: crumbs.HookBeforeRun}
		}
	}}, change...)...)
}

// A hook, a parser and a tool may share a name; each gets its own calls, and a
// hook's args may hold what no argument of a tool may.
func TestWorker_RunsHooksAndParsersBesideTools(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		var seen hook.Context
		h := hook.Register("audit", hook.Hooks{BeforeRun: func(ctx hook.Context, in json.RawMessage) (hook.Before, error) {
			seen = ctx
			return hook.Continue(in), nil
		}})
		p := tool.DefineParser("audit", func(_ tool.Context, text string) ([]string, error) { return strings.Split(text, "\n"), nil })
		c := counting("audit", crumbs.EffectOnce, double)
		l.serve(worker.Config{Name: "w1"}, c.Tool, h, p)

		in := crumbs.HookInput{Scope: crumbs.ScopeTool, Tool: "tool:pay", ToolName: "tool_pay", ToolCallID: "run_1.1.0", Input: json.RawMessage(`{"n":9007199254740993000}`)}
		l.send(program(t, h, crumbs.KindHook, "1.0h0", in, func(c *crumbs.ToolCall) {
			c.Context = &crumbs.CallContext{Principal: &crumbs.Principal{Issuer: "i", Subject: "s"}}
		}))
		r := l.result()
		wantStatus(t, r, crumbs.StatusOK, "")
		if string(r.Result) != `{"action":"continue","input":{"n":9007199254740993000}}` {
			t.Errorf("%s", r.Result)
		}
		if seen.Scope != crumbs.ScopeTool || seen.ToolName != "tool_pay" || seen.CallID != "run_1.1.0h0" || seen.Hook.Name != "audit" || seen.Principal.Subject != "s" || seen.AgentID != "agent" || seen.SessionID != "ses_1" {
			t.Errorf("the hook saw %+v", seen)
		}
		l.send(program(t, p, crumbs.KindParse, "2.p0", crumbs.ParseInput{Text: "a\nb"}))
		if r := l.result(); r.Status != crumbs.StatusOK || string(r.Result) != `["a","b"]` {
			t.Errorf("the parser: %+v", r)
		}
		l.send(call(t, c.Tool, `{"n":2}`))
		if r := l.result(); r.Status != crumbs.StatusOK || string(r.Result) != "4" {
			t.Errorf("the tool: %+v", r)
		}
		c.want(t, 1)
		wait(time.Second)
		l.settled()
	})
}

func TestWorker_AnnouncesEachKind(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		tools := []tool.Tool{
			counting("audit", crumbs.EffectPure, double).Tool,
			hook.Register("audit", hook.Hooks{OnSuspend: func(hook.Context) error { return nil }}),
			tool.DefineParser("audit", func(_ tool.Context, text string) (string, error) { return text, nil }),
			tool.DefineHuman[struct{ Why string }, bool]("allow", "Asks.", tool.Human{Prompt: "Really?", Expires: time.Hour}),
		}
		l.serve(worker.Config{Name: "w1"}, tools...)
		wait(time.Second)
		for key, kind := range map[string]agent.Announced{group + "._.audit": agent.AnnouncedTool, group + "._hook.audit": agent.AnnouncedHook,
			group + "._parse.audit": agent.AnnouncedParse, group + "._.allow": agent.AnnouncedHuman} {
			r, err := l.Conn.Bucket(crumbs.BucketTools).Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			var got agent.Announcement
			if err := json.Unmarshal(r.Value, &got); err != nil || got.Kind != kind || got.Check() != nil {
				t.Errorf("%s: %+v, %v, %v", key, got, err, got.Check())
			}
			if kind == agent.AnnouncedHuman && (got.Prompt != "Really?" || got.ExpiresMs != time.Hour.Milliseconds() || string(got.AnswerSchema) != `{"type":"boolean"}`) {
				t.Errorf("%+v", got)
			}
		}
	})
}

// Whatever goes wrong with a hook is its error, and no other call suffers (F043, F090).
func TestWorker_HookFails_F043_F090(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		h := hook.Register("guard", hook.Hooks{BeforeRun: func(ctx hook.Context, _ json.RawMessage) (hook.Before, error) {
			switch ctx.ToolName {
			case "tool_panic":
				panic("boom")
			case "tool_slow":
				<-ctx.Done()
			case "tool_error":
				return hook.Before{}, errors.New("no")
			}
			return hook.Before{}, nil
		}}, tool.Timeout(time.Second))
		_, stop := l.serve(worker.Config{Name: "w1"}, h)
		in := func(name string) crumbs.HookInput {
			return crumbs.HookInput{Scope: crumbs.ScopeTool, ToolName: name, Input: json.RawMessage(`{}`)}
		}
		short := func(c *crumbs.ToolCall) { c.TimeoutMs = 0 }
		for suffix, c := range map[string]struct {
			name, status string
			code         fault.Code
		}{"1.h0": {"tool_panic", crumbs.StatusError, fault.HookError}, "2.h0": {"tool_slow", crumbs.StatusError, fault.ToolTimeout},
			"3.h0": {"tool_error", crumbs.StatusError, fault.HookError}, "4.h0": {"tool_fine", crumbs.StatusOK, ""}} {
			l.send(program(t, h, crumbs.KindHook, suffix, in(c.name), short))
			wantStatus(t, l.result(), c.status, c.code)
		}
		l.send(program(t, h, crumbs.KindHook, "5.h0", in("tool_fine"), func(c *crumbs.ToolCall) { c.Hook.Point = crumbs.HookAfterRun }))
		wantStatus(t, l.result(), crumbs.StatusError, fault.HookNotFound)
		l.send(program(t, h, crumbs.KindHook, "6.h0", in("tool_fine"), func(c *crumbs.ToolCall) { c.ArgsHash = strings.Repeat("0", 64) }))
		wantStatus(t, l.result(), crumbs.StatusError, fault.InvalidMessage)
		l.send(program(t, h, crumbs.KindHook, "7.h0", in("tool_fine"), func(c *crumbs.ToolCall) { c.Permission = crumbs.Permission{Verdict: crumbs.VerdictApproved} }))
		wantStatus(t, l.result(), crumbs.StatusError, fault.ToolDenied)
		l.send(program(t, h, "resolve", "8.r0", in("tool_fine")))
		wantStatus(t, l.result(), crumbs.StatusError, fault.NotAvailable)
		wait(time.Second)
		l.settled()
		stop()
	})
}

// The result brings back what was yielded when the call asks for it, as far as the
// bounds go, also when the call fails (CF-S01, CF-S05).
func TestWorker_KeepsPartials_CF_S05(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		type how struct {
			N    int  `json:"n"`
			Size int  `json:"size"`
			Fail bool `json:"fail,omitempty"`
		}
		s := tool.DefineStream("count", "Counts.", func(_ tool.Context, in how) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for range in.N {
					if !yield(strings.Repeat("x", in.Size), nil) {
						return
					}
				}
				if in.Fail {
					yield("", errors.New("no more"))
				}
			}
		}, tool.Effect(crumbs.EffectPure))
		l.serve(worker.Config{Name: "w1"}, s)
		keep := func(c *crumbs.ToolCall) { c.KeepPartials = true }
		for i, c := range []struct {
			args          string
			keep          bool
			status        string
			kept, omitted int
		}{
			{`{"n":3,"size":1}`, true, crumbs.StatusOK, 3, 0},
			{`{"n":3,"size":1}`, false, crumbs.StatusOK, 0, 0},
			{`{"n":2,"size":1,"fail":true}`, true, crumbs.StatusError, 2, 0},
			{`{"n":70,"size":1}`, true, crumbs.StatusOK, crumbs.PartialsMax, 6},
			{`{"n":3,"size":65000}`, true, crumbs.StatusOK, 2, 1},
		} {
			req := call(t, s, c.args, func(r *crumbs.ToolCall) { r.CallID = crumbs.ToolCallID(run, 1, i) })
			if c.keep {
				keep(&req)
			}
			l.send(req)
			r := l.result()
			if r.Status != c.status || len(r.Partials) != c.kept || r.PartialsOmitted != c.omitted {
				t.Errorf("%s: status %s, %d kept, %d omitted; want %+v", c.args, r.Status, len(r.Partials), r.PartialsOmitted, c)
			}
		}
	})
}

// What a call stores is named by its result; a failed one's too.
func TestWorker_FilesOfACall(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		c := counting("chart", crumbs.EffectPure, func(ctx tool.Context, in input) (any, error) {
			if err := ctx.Conceal("KEY", "hunter2-hunter2"); err != nil {
				return nil, err
			}
			for i := range in.N {
				name := strings.Repeat("x", i+1) + "hunter2-hunter2.txt"
				f, err := ctx.Files.Put(ctx, name, "text/plain", strings.NewReader(name))
				if err != nil {
					return nil, err
				}
				if _, err := ctx.Files.Put(ctx, name, "text/plain", strings.NewReader(name)); err != nil { // the same file
					return nil, err
				}
				if data, err := ctx.Files.Get(ctx, f.URI); err != nil || string(data) != name {
					return nil, errors.New("it reads otherwise")
				}
			}
			return "ok", nil
		})
		l.serve(worker.Config{Name: "w1"}, c.Tool)
		l.send(call(t, c.Tool, `{"n":2}`))
		r := l.result()
		wantStatus(t, r, crumbs.StatusOK, "")
		if len(r.Files) != 2 || !strings.HasPrefix(r.Files[0].URI, "files:tool."+group+"/run_1/") || r.Files[0].Name != "x[KEY].txt" || r.Files[0].MimeType != "text/plain" {
			t.Errorf("%+v", r.Files)
		}
		l.send(call(t, c.Tool, `{"n":65}`, func(c *crumbs.ToolCall) { c.CallID = crumbs.ToolCallID(run, 1, 1) }))
		r = l.result()
		wantStatus(t, r, crumbs.StatusError, fault.PayloadTooLarge)
		if len(r.Files) != crumbs.FilesMax {
			t.Errorf("%d files", len(r.Files))
		}
	})
}
