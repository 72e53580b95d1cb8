package worker_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

type input struct {
	N int `json:"n" jsonschema:"default=7"`
}

// counter is a tool that counts its executions and then does what it is told.
type counter struct {
	runs atomic.Int64
	tool.Tool
}

func counting(name string, effect crumbs.Effect, f func(tool.Context, input) (any, error), opts ...tool.Option) *counter {
	c := &counter{}
	c.Tool = tool.Define(name, "Counts.", func(ctx tool.Context, in input) (any, error) {
		c.runs.Add(1)
		return f(ctx, in)
	}, append(opts, tool.Effect(effect))...)
	return c
}

func double(_ tool.Context, in input) (any, error) { return 2 * in.N, nil }

func (c *counter) want(t *testing.T, n int64) {
	t.Helper()
	if got := c.runs.Load(); got != n {
		t.Errorf("the handler ran %d times, want %d", got, n)
	}
}

func TestWorker_RunsACall(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		var seen tool.Context
		c := counting("double", crumbs.EffectOnce, func(ctx tool.Context, in input) (any, error) {
			seen = ctx
			return double(ctx, in)
		})
		l.serve(worker.Config{Name: "w1"}, c.Tool)
		req := call(t, c.Tool, `{"n":21}`, func(c *crumbs.ToolCall) {
			c.Context = &crumbs.CallContext{Goal: "g", Principal: &crumbs.Principal{Issuer: "i", Subject: "s"}}
		})
		seq := l.send(req)
		got := l.result()
		got.StartedAt = nil
		want := crumbs.ToolResult{Type: crumbs.TypeToolResult, RunID: run, CallID: req.CallID, Attempt: 1, Group: group, Worker: "w1",
			Delivery: 1, Status: crumbs.StatusOK, Result: json.RawMessage("42")}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if seen.RunID != run || seen.CallID != req.CallID || seen.AgentID != "agent" || seen.SessionID != "ses_1" || seen.Attempt != 1 ||
			seen.Goal != "g" || seen.Principal.Subject != "s" || seen.ToolName != "tool_double" || seen.Logger == nil {
			t.Errorf("the handler saw %+v", seen)
		}
		if claim := l.claim(req); claim.State != mesh.ClaimStarted || claim.MessageSeq != seq || claim.Worker != "w1" || claim.Starts != 1 {
			t.Errorf("claim %+v", claim)
		}
		wait(time.Second)
		l.settled()
	})
}

func TestWorker_Announces(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		c := counting("double", crumbs.EffectPure, double, tool.Timeout(time.Second))
		p := tool.New("agent/look", "Looks.", func(tool.Context, json.RawMessage, tool.Yield) (json.RawMessage, error) { return nil, nil }, tool.Digest("d1"))
		_, stop := l.serve(worker.Config{Name: "w1"}, c.Tool, p)
		wait(time.Second)
		for _, tl := range []tool.Tool{c.Tool, p} {
			want := tl.Announcement(group)
			r, err := l.Conn.Bucket(crumbs.BucketTools).Get(t.Context(), want.Key())
			if err != nil {
				t.Fatal(err)
			}
			var got agent.Announcement
			if err := json.Unmarshal(r.Value, &got); err != nil {
				t.Fatalf("%s: %v", r.Value, err)
			}
			if got.Hash() != want.Hash() || got.Handler != tl.Name() {
				t.Errorf("announced %+v, want %+v", got, want)
			}
		}
		alive := func() bool {
			ok, err := l.Conn.Alive(t.Context(), crumbs.ToolPresence(group, "w1"))
			if err != nil {
				t.Fatal(err)
			}
			return ok
		}
		wait(time.Minute)
		if !alive() {
			t.Error("a serving worker is not present")
		}
		stop()
		if alive() {
			t.Error("a stopped worker is still present")
		}
	})
}

func TestWorker_CF_S01_CF_S02_PartialsThenResult(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		const n = 150 // more than may be in flight
		tl := tool.DefineStream("count", "Counts.", func(_ tool.Context, in input) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				for i := range in.N {
					if !yield(i, nil) {
						return
					}
				}
			}
		}, tool.Effect(crumbs.EffectPure))
		l.serve(worker.Config{}, tl)
		l.send(call(t, tl, fmt.Sprintf(`{"n":%d}`, n), func(c *crumbs.ToolCall) { c.Attempt = 2 }))
		r := l.result()
		wantStatus(t, r, crumbs.StatusOK, "")
		if string(r.Result) != fmt.Sprint(n-1) || r.Deltas != n {
			t.Errorf("result %s after %d deltas", r.Result, r.Deltas)
		}
		// All are stored when the result is.
		bodies := l.deltas()
		if len(bodies) != n {
			t.Fatalf("%d partials", len(bodies))
		}
		for i, body := range bodies {
			want := fmt.Sprintf(`{"type":"tool:result:partial","runId":"run_1","agentId":"agent","sessionId":"ses_1","seq":5,"step":1,"attempt":2,"index":%d,"toolCallId":"run_1.1.0","toolName":"tool_count","result":%d}`, i, i)
			if d := cmp.Diff(fields(t, want), fields(t, body, "timestamp")); d != "" { // CF-S02: no durationMs
				t.Error(d)
			}
		}
	})
}

func (l *lab) deltas() []string {
	l.t.Helper()
	s, err := l.Conn.JS.Stream(l.t.Context(), crumbs.StreamDeltas)
	if err != nil {
		l.t.Fatal(err)
	}
	if s.CachedInfo().State.Msgs == 0 {
		return nil
	}
	var out []string
	for seq := s.CachedInfo().State.FirstSeq; seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(l.t.Context(), seq)
		if err != nil {
			l.t.Fatal(err)
		}
		if m.Subject != crumbs.PartialSubject("agent", run, group) {
			l.t.Errorf("partial on %s", m.Subject)
		}
		out = append(out, string(m.Data))
	}
	return out
}

func fields(t *testing.T, body string, without ...string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatal(err)
	}
	for _, k := range without {
		if _, ok := m[k]; !ok {
			t.Errorf("no %s in %s", k, body)
		}
		delete(m, k)
	}
	return m
}

func TestWorker_CF_S08_PlainToolHasNoDeltas(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		c := counting("double", crumbs.EffectPure, double)
		l.serve(worker.Config{}, c.Tool)
		l.send(call(t, c.Tool, `{"n":1}`))
		if r := l.result(); r.Deltas != 0 || len(l.deltas()) != 0 {
			t.Errorf("deltas: %d, stored %d", r.Deltas, len(l.deltas()))
		}
	})
}

// F043: a panicking call ends alone; its slot is free again and its message acked.
func TestWorker_F043_PanicFreesTheSlot(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		c := counting("mixed", crumbs.EffectOnce, func(_ tool.Context, in input) (any, error) {
			if in.N < 3 {
				panic("boom")
			}
			return in.N, nil
		})
		l.serve(worker.Config{Slots: 1}, c.Tool)
		for i := 1; i <= 4; i++ {
			l.send(call(t, c.Tool, fmt.Sprintf(`{"n":%d}`, i), func(c *crumbs.ToolCall) { c.CallID = crumbs.ToolCallID(run, 1, i) }))
			r := l.result()
			if i < 3 {
				wantStatus(t, r, crumbs.StatusError, fault.ToolError)
			} else {
				wantStatus(t, r, crumbs.StatusOK, "")
			}
		}
		wait(time.Second)
		l.settled()
		c.want(t, 4)
	})
}

func TestWorker_OneMessageASlot(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		var now, most atomic.Int64
		c := counting("slow", crumbs.EffectPure, func(ctx tool.Context, in input) (any, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			return nil, after(ctx, 10*time.Second) // longer than AckWait: heartbeats keep it
		})
		l.serve(worker.Config{Slots: 2}, c.Tool)
		start := time.Now()
		for i := range 4 {
			l.send(call(t, c.Tool, `{"n":1}`, func(c *crumbs.ToolCall) { c.CallID = crumbs.ToolCallID(run, 1, i) }))
		}
		for range 4 {
			if r := l.result(); r.Delivery != 1 || r.DurationMs != 10_000 || string(r.Result) != "null" {
				t.Errorf("result %+v", r)
			}
		}
		if took := time.Since(start); took < 20*time.Second || took > 25*time.Second || most.Load() != 2 {
			t.Errorf("took %v, at most %d at once", took, most.Load())
		}
		c.want(t, 4)
	})
}

func TestWorker_LargeResultIsAClaimCheck(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		big := strings.Repeat("x", mesh.InlineMax)
		c := counting("big", crumbs.EffectOnce, func(tool.Context, input) (any, error) { return big, nil })
		seen := make(chan *nats.Msg, 1)
		_, err := l.Conn.NATS.ChanSubscribe("tool.result.>", seen)
		if err != nil {
			t.Fatal(err)
		}
		l.serve(worker.Config{}, c.Tool)
		l.send(call(t, c.Tool, `{"n":1}`))
		if r := l.result(); string(r.Result) != `"`+big+`"` {
			t.Errorf("a result of %d bytes came back", len(r.Result))
		}
		m := <-seen
		var short crumbs.ToolResult
		if err := json.Unmarshal(m.Data, &short); err != nil {
			t.Fatal(err)
		}
		if len(m.Data) > 1024 || short.DataRef == nil || short.Status != crumbs.StatusOK || short.CallID == "" || m.Header.Get("ce-dataref") != short.DataRef.Object {
			t.Errorf("message %.200s", m.Data)
		}
	})
}

// What a tool returns must not keep its result from being written.
func TestWorker_HugeErrorIsCut(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		c := counting("bad", crumbs.EffectOnce, func(tool.Context, input) (any, error) {
			return nil, fault.New(fault.QueueFull, "%s", strings.Repeat("x", 2<<20)).With("channel", make(chan int))
		})
		l.serve(worker.Config{}, c.Tool)
		l.send(call(t, c.Tool, `{"n":1}`))
		r := l.result()
		wantStatus(t, r, crumbs.StatusError, fault.QueueFull)
		if len(r.Error.Message) > 20<<10 {
			t.Errorf("message of %d bytes", len(r.Error.Message))
		}
	})
}

// A result or error deeper than a record carries ends its call like any other.
func TestWorker_DeepResultAndErrorAreAnswered(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		nested := func(n int) (v any) {
			for range n {
				v = []any{v}
			}
			return v
		}
		result := counting("result", crumbs.EffectOnce, func(tool.Context, input) (any, error) { return nested(9_995), nil })
		failure := counting("failure", crumbs.EffectOnce, func(tool.Context, input) (any, error) {
			return nil, fault.New(fault.QueueFull, "x").With("deep", nested(tool.DepthMax))
		})
		l.serve(worker.Config{}, result.Tool, failure.Tool)
		l.send(call(t, result.Tool, `{"n":1}`))
		wantStatus(t, l.result(), crumbs.StatusError, fault.ToolResultInvalid)
		result.want(t, 1)
		l.send(call(t, failure.Tool, `{"n":1}`, func(c *crumbs.ToolCall) { c.CallID = crumbs.ToolCallID(run, 1, 1) }))
		r := l.result()
		wantStatus(t, r, crumbs.StatusError, fault.QueueFull)
		if r.Error.Context["deep"] != nil {
			t.Errorf("the error carries a context of %d bytes", len(fmt.Sprint(r.Error.Context)))
		}
		failure.want(t, 1)
	})
}

// A result is repeated until INBOX takes it; the call is not run again meanwhile
// (protocol P6).
func TestWorker_ResultWaitsForRoom(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		l.stops[0]() // nobody reads INBOX
		l.stops = nil
		s, err := l.Conn.JS.Stream(t.Context(), crumbs.StreamInbox)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; ; n++ {
			_, err := l.Conn.Publish(t.Context(), &nats.Msg{Subject: crumbs.ControlSubject(run), Data: []byte(`"` + strings.Repeat("x", 100) + `"`)})
			if fault.CodeOf(err) == fault.QueueFull {
				break
			}
			if err != nil || n > 100 {
				t.Fatalf("%d messages, then %v", n, err)
			}
		}
		c := counting("pay", crumbs.EffectOnce, double)
		l.serve(worker.Config{}, c.Tool)
		l.send(call(t, c.Tool, `{"n":1}`))
		wait(time.Minute)
		if n := l.messages(crumbs.StreamToolCalls, ">"); n != 1 {
			t.Errorf("the call's message was let go: %d left", n)
		}
		if err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		wait(10 * time.Second)
		if n := l.messages(crumbs.StreamInbox, "tool.result.>"); n != 1 {
			t.Errorf("%d results", n)
		}
		c.want(t, 1)
		l.settled()
	}, meshtest.WithSettings(func(s *mesh.Settings) { s.InboxBytes = 2048 }))
}

func TestWorker_UnreadableMessageIsDead(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		c := counting("double", crumbs.EffectPure, double)
		l.serve(worker.Config{}, c.Tool)
		good := call(t, c.Tool, `{"n":1}`)
		for _, change := range []func(*crumbs.ToolCall){
			func(c *crumbs.ToolCall) { c.Type = "model.call" },
			func(c *crumbs.ToolCall) { c.Group = "other" },
			func(c *crumbs.ToolCall) { c.CallID = "run_2.1.0" },
			func(c *crumbs.ToolCall) { c.Attempt = 0 },
			func(c *crumbs.ToolCall) { c.StartBefore = crumbs.Time{} },
			func(c *crumbs.ToolCall) { c.DeadlineAt = crumbs.Time{} },
			func(c *crumbs.ToolCall) { c.TimeoutMs = -1 },
			func(c *crumbs.ToolCall) { c.AgentID = "a.b" },
		} {
			bad := good
			change(&bad)
			l.send(bad)
		}
		l.publish(&nats.Msg{Subject: crumbs.ToolCallSubject(group, run), Data: []byte(`[]`)})
		l.publish(&nats.Msg{Subject: crumbs.ToolCallSubject(group, run), Data: []byte(`{`)})
		l.quiet(time.Minute)
		if n := l.messages(crumbs.StreamDead, crumbs.DeadFilter(crumbs.StreamToolCalls, "run_1")); n != 10 {
			t.Errorf("%d dead letters", n)
		}
		l.settled()
		c.want(t, 0)
	})
}

func TestNew_RefusesWhatItCannotServe(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		good := counting("double", crumbs.EffectPure, double).Tool
		bad := tool.Define("Bad", "d", func(tool.Context, input) (int, error) { return 0, nil })
		for name, tc := range map[string]struct {
			cfg   worker.Config
			tools []tool.Tool
			code  fault.Code
			say   string
		}{
			"group name": {worker.Config{Group: "My-Group"}, []tool.Tool{good}, fault.InvalidName, "my_group"},
			"no queue":   {worker.Config{Group: "other"}, []tool.Tool{good}, fault.TopologyMissing, "name other under `groups`"},
			"no tools":   {worker.Config{Group: group}, nil, fault.InvalidConfig, "0 tools"},
			"wrong tool": {worker.Config{Group: group}, []tool.Tool{good, bad}, fault.InvalidName, "bad"},
			"twice":      {worker.Config{Group: group}, []tool.Tool{good, good}, fault.InvalidConfig, "twice"},
			"slots":      {worker.Config{Group: group, Slots: -1}, []tool.Tool{good}, fault.InvalidConfig, "slots"},
		} {
			err := worker.Run(t.Context(), tc.cfg, l.Conn, tc.tools...)
			if fault.CodeOf(err) != tc.code || !strings.Contains(err.Error(), tc.say) {
				t.Errorf("%s: got %v, want %s saying %q", name, err, tc.code, tc.say)
			}
		}
	})
}

func TestWorker_HealthIsTheLoops(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		conn := l.Connect("worker")
		w, err := worker.New(t.Context(), worker.Config{Group: group}, conn, counting("double", crumbs.EffectPure, double).Tool)
		if err != nil {
			t.Fatal(err)
		}
		l.background(w.Run)
		wait(time.Minute)
		if err := w.Health(); err != nil || !strings.HasPrefix(w.Name(), group+"-") {
			t.Errorf("worker %s: %v", w.Name(), err)
		}
		conn.Close()
		if err := w.Health(); fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("without a connection: %v", err)
		}
	})
}
