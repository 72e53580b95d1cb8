package observability_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/crumbmesh/crumbmesh/internal/fleet"
	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// The trace of whoever asks for the run.
const (
	callerTrace = "0af7651916cd43dd8448eb211c80319c"
	callerSpan  = "b7ad6b7169203331"
)

// tracers give each connection an exporter of its own, as processes have.
type tracers struct {
	mu  sync.Mutex
	all []*exporter
}

type exporter struct {
	process string
	*tracetest.InMemoryExporter
}

func (r *tracers) telemetry(name string) (metric.MeterProvider, trace.TracerProvider) {
	e := &exporter{name, tracetest.NewInMemoryExporter()}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e)
	return nil, sdktrace.NewTracerProvider(sdktrace.WithSyncer(e), sdktrace.WithIDGenerator(telemetry.IDGenerator{}))
}

// span is an exported span and the process it came from.
type span struct {
	process string
	tracetest.SpanStub
}

// spans are those of the run, from every process.
func (r *tracers) spans(run crumbs.RunID) (out []span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.all {
		for _, s := range e.GetSpans() {
			for _, a := range s.Attributes {
				if a.Key == "crumbmesh.run.id" && a.Value.AsString() == string(run) {
					out = append(out, span{e.process, s})
				}
			}
		}
	}
	return out
}

func named(t *testing.T, spans []span, name string, n int) []span {
	t.Helper()
	var out []span
	for _, s := range spans {
		if s.Name == name {
			out = append(out, s)
		}
	}
	if len(out) != n {
		t.Fatalf("%d spans %q, want %d", len(out), name, n)
	}
	return out
}

// links are the spans that one links to, by why.
func links(s span) map[string]trace.SpanID {
	out := map[string]trace.SpanID{}
	for _, l := range s.Links {
		set := attribute.NewSet(l.Attributes...)
		why, _ := set.Value("crumbmesh.link")
		out[why.AsString()] = l.SpanContext.SpanID()
	}
	return out
}

// A run under a caller's trace waits two days for a person. Every process that
// began it is gone by then; others end it. It is one trace with one root, and what
// comes after the wait links to it (F130).
func TestTrace_F130_OneTraceOverProcessesAndDays(t *testing.T) {
	const days = 2 * 24 * time.Hour
	r := &tracers{}
	meshtest.Bubble(t, func(t *testing.T, m *meshtest.Mesh) {
		f := fleet.New(t, m)
		defer f.Close()
		traced := func(c *orchestrator.Config) {
			c.Trace, c.Timing = true, orchestrator.DefaultTiming()
			c.Timing.Question = 2 * days
		}
		begin := []*fleet.Service{f.Gateway(), f.Approvals(), f.Tools(groupDemo, tools()...), f.Orchestrator(traced)}
		human := agent.Tool{Name: "title", Description: "Ask.", Schema: json.RawMessage(`{"type":"object"}`), Human: &agent.Human{ExpiresMs: (2 * days).Milliseconds()}}
		f.Apply([]string{groupDemo}, scripted("clerk", []string{"tool:pay"}, []agent.Tool{workerTool(groupDemo, "pay"), human},
			agent.Turn{ToolCalls: []agent.ScriptCall{call("pay")}}, agent.Turn{ToolCalls: []agent.ScriptCall{{Name: "human_title"}}}, agent.Turn{Text: "Done."}))
		msg := &nats.Msg{Subject: crumbs.RequestSubject("clerk"), Header: nats.Header{"traceparent": {"00-" + callerTrace + "-" + callerSpan + "-01"}}, Data: []byte(`{"runId":"run_1"}`)}
		if _, err := m.Conn.Publish(context.Background(), msg); err != nil {
			t.Fatal(err)
		}
		f.WaitSuspended("run_1")
		for _, s := range begin {
			s.Stop()
		}
		<-time.After(days)
		f.Gateway()
		f.Approvals()
		f.Tools(groupDemo, tools()...)
		f.Orchestrator(traced)
		if _, err := f.Approve("run_1.1.0"); err != nil {
			t.Fatal(err)
		}
		f.WaitFor("run_1", func(c fleet.Stored) bool { return c.Base.Suspended && c.Base.Step == 2 })
		if _, err := f.Decide(decision.Answer{CheckpointID: "run_1.2.0", Outcome: crumbs.DecideAnswer, Response: json.RawMessage(`"Title"`)}); err != nil {
			t.Fatal(err)
		}
		f.WaitEnd("run_1")
		f.WaitTrimmed("run_1")
	}, meshtest.WithTopology([]string{groupDemo}, []string{"script"}), meshtest.WithTelemetry(r.telemetry))
	spans := r.spans("run_1")
	root := named(t, spans, "invoke_agent clerk", 1)[0]
	if root.Parent.SpanID().String() != callerSpan || root.SpanContext.TraceID().String() != callerTrace || root.EndTime.Sub(root.StartTime) < days {
		t.Errorf("the root span is %s under %s for %s", root.SpanContext.TraceID(), root.Parent.SpanID(), root.EndTime.Sub(root.StartTime))
	}
	seen := map[trace.SpanID]bool{}
	for _, s := range spans {
		if id := s.SpanContext.SpanID(); seen[id] {
			t.Errorf("two spans have the id %s", id)
		} else {
			seen[id] = true
		}
		if s.SpanContext.TraceID() != root.SpanContext.TraceID() {
			t.Errorf("%s is in another trace", s.Name)
		}
		if s.SpanContext.SpanID() != root.SpanContext.SpanID() && s.Parent.SpanID() != root.SpanContext.SpanID() {
			t.Errorf("%s is not under the root", s.Name)
		}
	}
	wait, asked := named(t, spans, "human.wait tool_pay", 1)[0], named(t, spans, "human.wait human_title", 1)[0]
	if took := wait.EndTime.Sub(wait.StartTime); took < days {
		t.Errorf("the wait took %s", took)
	}
	named(t, spans, "chat main", 3)
	pay := named(t, spans, "execute_tool tool_pay", 1)[0]
	if links(pay)["answer"] != wait.SpanContext.SpanID() || pay.StartTime.Before(wait.EndTime.Add(-time.Second)) {
		t.Errorf("the payment links to %v, the wait is %s", links(pay), wait.SpanContext.SpanID())
	}
	for _, s := range named(t, spans, "approval.decide", 2) {
		if q := links(s)["question"]; q != wait.SpanContext.SpanID() && q != asked.SpanContext.SpanID() {
			t.Errorf("a decision links to %v", links(s))
		}
	}
	after := 0
	for _, s := range named(t, spans, "chat main", 3) {
		if links(s)["answer"] == asked.SpanContext.SpanID() {
			after++
		}
	}
	if after != 1 {
		t.Errorf("%d model calls link to the question that led to them, want 1", after)
	}
	processes := map[string]bool{}
	for _, s := range spans {
		processes[strings.SplitN(s.process, "-", 2)[0]] = true
	}
	if len(processes) != 4 {
		t.Errorf("the spans come from %v", processes)
	}
}

// A call that is started again after its worker died, and an attempt after one that
// failed, link to the span before them.
func TestTrace_RedeliveryAndRetryLink(t *testing.T) {
	r := &tracers{}
	meshtest.Bubble(t, func(t *testing.T, m *meshtest.Mesh) {
		f := fleet.New(t, m)
		defer f.Close()
		entered := make(chan struct{}, 2)
		var first *fleet.Service
		slow := func(die bool) tool.Tool {
			return tool.Define("lookup", "Look up.", func(tool.Context, input) (string, error) {
				entered <- struct{}{}
				if die {
					f.Park()
				}
				return "ok", nil
			}, tool.Effect(crumbs.EffectPure))
		}
		f.Gateway()
		first = f.Tools(groupDemo, slow(true))
		f.Orchestrator(func(c *orchestrator.Config) { c.Trace = true })
		d := scripted("clerk", nil, []agent.Tool{workerTool(groupDemo, "lookup")},
			agent.Turn{Error: &agent.TurnError{Status: 529}}, agent.Turn{ToolCalls: []agent.ScriptCall{call("lookup")}}, agent.Turn{Text: "Done."})
		d.ErrorHandling = agent.ErrorHandling{Retry: &agent.Retry{Attempts: 3, BackoffMs: 1000, BackoffMultiplier: 1}}
		f.Apply([]string{groupDemo}, d)
		f.Start("clerk", "run_1")
		<-entered
		first.Kill()
		f.Tools(groupDemo, slow(false))
		f.WaitEnd("run_1")
		f.WaitTrimmed("run_1")
	}, meshtest.WithTopology([]string{groupDemo}, []string{"script"}), meshtest.WithTelemetry(r.telemetry))
	spans := r.spans("run_1")
	chats := named(t, spans, "chat main", 3)
	if got := links(chats[1])["retry"]; got != chats[0].SpanContext.SpanID() || len(links(chats[0])) != 0 {
		t.Errorf("the second attempt links to %v, the first is %s", links(chats[1]), chats[0].SpanContext.SpanID())
	}
	again := spans[0]
	for _, s := range spans {
		if s.Name == "execute_tool tool_lookup" && len(s.Links) > 0 {
			again = s
		}
	}
	call := telemetry.Execution{Call: "run_1.1.0", Attempt: 1, Start: 1}
	if want := call.SpanID(again.SpanContext.TraceID()); links(again)["redelivery"] != want {
		t.Errorf("the second start links to %v, the first is %s", links(again), want)
	}
}
