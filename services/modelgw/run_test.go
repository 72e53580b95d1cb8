package modelgw_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/modelgw"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/worker/gatewaytest"
)

// apply stores an agent with one script, as `agents apply` does, and returns the
// first call of a run of it.
func apply(t *testing.T, b *gatewaytest.Bench, turns string) crumbs.ModelCall {
	t.Helper()
	d := agent.Definition{ID: "publisher", Model: agent.Model{Provider: modelgw.ProviderScript, Model: "main"}}
	s := agent.Script{Name: "main"}
	if err := json.Unmarshal([]byte(turns), &s.Turns); err != nil {
		t.Fatal(err)
	}
	d.Scripts = map[string]agent.Script{"main": s}
	body, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Conn.Bucket(crumbs.BucketAgents).Put(context.Background(), string(d.ID)+"."+d.Revision(), body); err != nil {
		t.Fatal(err)
	}
	call := gatewaytest.Call("run_1")
	call.AgentRevision = d.Revision()
	return call
}

// start runs a gateway until the returned function is called, and returns when
// it is ready.
func start(t *testing.T, b *gatewaytest.Bench, cfg modelgw.Config) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	cfg.Ready = func() { close(ready) }
	go func() { ended <- modelgw.Run(ctx, cfg, b.Conn) }()
	select {
	case <-ready:
	case err := <-ended:
		cancel()
		t.Fatalf("not ready: %v", err)
	}
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	}
}

// next is the call after call: the next step, or the next attempt of the step.
func next(call crumbs.ModelCall, retry bool) crumbs.ModelCall {
	call.N++
	if retry {
		call.Attempt++
		return call
	}
	call.Step, call.Attempt = call.Step+1, 1
	call.CallID = crumbs.ModelCallID(call.RunID, call.Step)
	return call
}

func TestRun_Script(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		call := apply(t, b, `[
			{"text": "Reading {{ .input.path }}.", "toolCalls": [
				{"name": "tool_read", "args": {"path": "{{ .input.path }}"}}, {"name": "tool_count"}],
				"usage": {"inputTokens": 100, "outputTokens": 20}},
			{"text": "too busy", "error": {"status": 529, "retryAfterMs": 200}},
			{"reasoning": "so", "chunks": ["It is ", "called {{ .results.tool_read.title }}", ", {{ len .results.all }} results."], "delayMs": 20, "finishReason": "length"},
			{"json": {"verdict": "ok", "title": "{{ .results.tool_read.title }}"}},
			{"error": {"status": 400}}
		]`)
		stop := start(t, b, modelgw.Config{})

		b.Send(call)
		r := b.Result()
		want := &crumbs.Message{Role: crumbs.RoleAssistant, Parts: []crumbs.Part{
			{Type: crumbs.PartText, Text: "Reading README.md."},
			{Type: crumbs.PartToolCall, ToolCallID: "run_1.1.0", ToolName: "tool_read", Args: []byte(`{"path":"README.md"}`), ProviderCallID: "script_1_0"},
			{Type: crumbs.PartToolCall, ToolCallID: "run_1.1.1", ToolName: "tool_count", Args: []byte(`{}`), ProviderCallID: "script_1_1"},
		}}
		if diff := cmp.Diff(want, r.Message); diff != "" || r.FinishReason != "tool-calls" {
			t.Errorf("turn 1: %s %s", r.FinishReason, diff)
		}
		if diff := cmp.Diff(&crumbs.Usage{InputTokens: 100, OutputTokens: 20}, r.Usage); diff != "" {
			t.Error(diff)
		}

		call = next(call, false)
		call.Messages = append(call.Messages, *r.Message, crumbs.Message{Role: crumbs.RoleTool, Parts: []crumbs.Part{
			{Type: crumbs.PartToolResult, ToolCallID: "run_1.1.0", ToolName: "tool_read", Outcome: crumbs.OutcomeOK, Output: []byte(`{"title":"crumbmesh"}`)},
			{Type: crumbs.PartToolResult, ToolCallID: "run_1.1.1", ToolName: "tool_count", Outcome: crumbs.OutcomeOK, Output: []byte(`812`)},
		}}, gatewaytest.User("what a person said on the way"))
		b.Send(call)
		if r := b.Result(); r.Status != crumbs.StatusError || r.Error.Code != fault.ModelError || !r.Retryable || r.Error.RetryAfterMs != 200 || !strings.Contains(r.Error.Message, "529 Overloaded") || r.Deltas != 1 {
			t.Errorf("turn 2: %+v %+v", r.ModelResult, r.Error)
		}

		call = next(call, true)
		b.Send(call)
		r = b.Result()
		if r.Attempt != 2 || r.Status != crumbs.StatusOK || r.FinishReason != "length" || r.Deltas != 4 || r.DurationMs < 40 {
			t.Errorf("turn 3: %+v", r.ModelResult)
		}
		if diff := cmp.Diff([]crumbs.Part{
			{Type: crumbs.PartReasoning, Text: "so", Provider: modelgw.ProviderScript}, {Type: crumbs.PartText, Text: "It is called crumbmesh, 2 results."},
		}, r.Message.Parts); diff != "" {
			t.Errorf("turn 3: %s", diff)
		}

		call = next(call, false)
		b.Send(call)
		if r := b.Result(); r.FinishReason != "stop" || len(r.Message.Parts) != 1 || r.Message.Parts[0].Text != `{"verdict":"ok","title":"crumbmesh"}` {
			t.Errorf("turn 4: %+v", r.Message)
		}

		call = next(call, false)
		b.Send(call)
		if r := b.Result(); r.Retryable || !strings.Contains(r.Error.Message, "400 Bad Request") {
			t.Errorf("turn 5: %+v %+v", r.ModelResult, r.Error)
		}

		call = next(call, false)
		b.Send(call)
		if r := b.Result(); r.Error == nil || r.Error.Code != fault.ModelError || r.Retryable || !strings.Contains(r.Error.Message, "5 turns") || r.Error.Context["turn"] != 6.0 {
			t.Errorf("exhausted script: %+v %+v", r.ModelResult, r.Error)
		}
		stop()
		checkDeltas(t, b.Deltas())
	})
}

func checkDeltas(t *testing.T, deltas []gatewaytest.Delta) {
	t.Helper()
	var got []string
	for _, d := range deltas {
		got = append(got, d.EventID+": "+d.String())
	}
	want := []string{
		"run_1.1.m.1/0: 0 text:delta Reading README.md.",
		"run_1.1.m.1/1: 1 tool:input:start run_1.1.0tool_read", `run_1.1.m.1/2: 2 tool:input:delta run_1.1.0{"path":"README.md"}`, "run_1.1.m.1/3: 3 tool:input:end run_1.1.0",
		"run_1.1.m.1/4: 4 tool:input:start run_1.1.1tool_count", "run_1.1.m.1/5: 5 tool:input:delta run_1.1.1{}", "run_1.1.m.1/6: 6 tool:input:end run_1.1.1",
		"run_1.2.m.1/0: 0 text:delta too busy",
		"run_1.2.m.2/0: 0 reasoning:delta so", "run_1.2.m.2/1: 1 text:delta It is ", "run_1.2.m.2/2: 2 text:delta called crumbmesh", "run_1.2.m.2/3: 3 text:delta , 2 results.",
		`run_1.3.m.1/0: 0 text:delta {"verdict":"ok","title":"crumbmesh"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	for i := 10; i <= 11; i++ {
		if waited := deltas[i].Stored.Sub(deltas[i-1].Stored); waited < 20*time.Millisecond {
			t.Errorf("chunk %d came after %s, want delayMs 20", i-9, waited)
		}
	}
}

// ctl.cancel does not wait for a slow script's next chunk.
func TestRun_CancelBetweenChunks(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		call := apply(t, b, `[{"chunks": ["a", "b", "c"], "delayMs": 60000}]`)
		stop := start(t, b, modelgw.Config{})
		sent := time.Now()
		b.Send(call)
		synctest.Wait() // the script waits before "b"
		b.Cancel("run_1")
		if r := b.Result(); r.Status != crumbs.StatusCancelled || r.Deltas != 1 || time.Since(sent) > 10*time.Second {
			t.Errorf("after %s: %+v", time.Since(sent), r.ModelResult)
		}
		stop()
	})
}

func TestRun_ScriptFaults(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		call := apply(t, b, `[{"text": "{{ .results.tool_none }}"}]`)
		broken := string(call.AgentID) + ".rev_broken"
		if _, err := b.Conn.Bucket(crumbs.BucketAgents).Put(context.Background(), broken, []byte(`[]`)); err != nil {
			t.Fatal(err)
		}
		stop := start(t, b, modelgw.Config{})
		send := func(run crumbs.RunID, change func(*crumbs.ModelCall)) *fault.Error {
			c := call
			c.RunID, c.CallID = run, crumbs.ModelCallID(run, 1)
			change(&c)
			b.Send(c)
			r := b.Result()
			if r.Status != crumbs.StatusError || r.Retryable {
				t.Fatalf("%s: %+v", run, r.ModelResult)
			}
			return r.Error
		}
		for _, tc := range []struct {
			run    crumbs.RunID
			change func(*crumbs.ModelCall)
			code   fault.Code
			says   string
		}{
			{"run_template", func(*crumbs.ModelCall) {}, fault.ModelError, "tool_none"},
			{"run_script", func(c *crumbs.ModelCall) { c.Model.Model = "other" }, fault.ModelError, `no script "other"`},
			{"run_revision", func(c *crumbs.ModelCall) { c.AgentRevision = "rev_none" }, fault.AgentNotFound, "rev_none"},
			{"run_broken", func(c *crumbs.ModelCall) { c.AgentRevision = "rev_broken" }, fault.InternalError, "does not decode"},
			{"run_provider", func(c *crumbs.ModelCall) { c.Model.Provider = "acme" }, fault.UnknownProvider, `"acme"`},
		} {
			if e := send(tc.run, tc.change); e.Code != tc.code || !strings.Contains(e.Message, tc.says) {
				t.Errorf("%s: %v", tc.run, e)
			}
		}
		stop()
	})
}

func TestRun_IsPresentUntilItStops(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		stop := start(t, b, modelgw.Config{Providers: []string{gatewaytest.Provider}})
		rows := func() (n int) {
			if err := b.Conn.Bucket(crumbs.BucketWorkers).List(context.Background(), ">", func(mesh.Record) bool {
				n++
				return true
			}); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := rows(); n != 2 { // of its instance, and of those that agents have of their own
			t.Errorf("%d rows while it serves, want 2", n)
		}
		stop()
		if n := rows(); n != 0 {
			t.Errorf("%d rows after it stopped, want none", n)
		}
	})
}

func TestRun_Refuses(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, meshtest.WithTopology(nil, []string{modelgw.ProviderScript}))
	for name, tc := range map[string]struct {
		cfg  modelgw.Config
		code fault.Code
		says string
	}{
		"provider without a queue": {modelgw.Config{Providers: []string{"script", "acme"}}, fault.TopologyMissing, "name acme under `providers`"},
		"another spelling":         {modelgw.Config{Providers: []string{"MyProvider"}}, fault.InvalidName, `"my_provider"`},
		"reserved":                 {modelgw.Config{Providers: []string{"script", "own"}}, fault.InvalidConfig, "which every gateway serves"},
		"twice":                    {modelgw.Config{Providers: []string{"script", "script"}}, fault.InvalidConfig, "twice"},
		"slots":                    {modelgw.Config{Slots: -1}, fault.InvalidConfig, "got -1"},
		"too many slots":           {modelgw.Config{Slots: modelgw.SlotsMax + 1}, fault.InvalidConfig, "got 10001"},
		"grace":                    {modelgw.Config{Grace: -time.Second}, fault.InvalidConfig, "got -1s"},
	} {
		tc.cfg.Ready = func() { t.Errorf("%s: ready", name) }
		if err := modelgw.Run(context.Background(), tc.cfg, m.Conn); fault.CodeOf(err) != tc.code || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
