package observability_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/fleet"
	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// book keeps log lines.
type book struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *book) lines(t *testing.T) (out []map[string]any) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.buf.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

// Whatever a service logs about a message says the same things under the same keys:
// the subject, the delivery, the run, the call with its step and attempt, the trace,
// and of an error its code.
func TestLog_LinesSayWhatTheyAreAbout(t *testing.T) {
	t.Parallel()
	b := &book{}
	f := fleet.New(t, meshtest.Start(t, meshtest.WithTopology([]string{groupDemo}, []string{"script"}),
		meshtest.WithLog(slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug})))))
	f.Gateway()
	f.Approvals()
	f.Tools(groupDemo, tools()...)
	f.Orchestrator()
	const parent = "00-" + callerTrace + "-" + callerSpan + "-01"
	send := func(subject, id, body string) {
		t.Helper()
		m := &nats.Msg{Subject: subject, Header: nats.Header{"traceparent": {parent}}, Data: []byte(body)}
		if id != "" {
			e := crumbs.Event{ID: id, Source: crumbs.Source("test"), Type: crumbs.CEType(crumbs.TypeToolCall), Subject: "run/run_7", Time: time.Now(), RunID: "run_7", AgentID: "clerk", Data: []byte(body)}
			var err error
			if m, err = e.Message(subject); err != nil {
				t.Fatal(err)
			}
			m.Header["traceparent"] = []string{parent}
		}
		if _, err := f.Mesh.Conn.Publish(context.Background(), m); err != nil {
			t.Fatal(err)
		}
	}
	send(crumbs.ControlSubject("run_7"), "", "no json")
	send(crumbs.ToolCallSubject(groupDemo, "run_7"), "run_7.3.1.2", `{"type":"nonsense"}`)
	send(crumbs.ModelCallSubject("script", "run_7"), "run_7.3.m.1", `{"type":"nonsense"}`)
	f.Apply([]string{groupDemo}, scripted("clerk", nil, []agent.Tool{workerTool(groupDemo, "lookup")}, agent.Turn{Text: "Done."}))
	f.Start("clerk", "run_1")
	f.WaitEnd("run_1")
	type want struct{ subject, call string }
	wanted := map[want]bool{{"run.control.run_7", ""}: false, {"tool.call.demo.run_7", "run_7.3.1"}: false, {"model.call.script.run_7", "run_7.3.m"}: false}
	f.Until("the three messages are told of", func() bool {
		for _, l := range b.lines(t) {
			if l["msg"] == "message not done" {
				call, _ := l["call"].(string)
				wanted[want{l["subject"].(string), call}] = true
			}
		}
		for _, seen := range wanted {
			if !seen {
				return false
			}
		}
		return true
	})
	for _, l := range b.lines(t) {
		_, ofMessage := l["delivery"]
		if _, failed := l["error"]; failed && ofMessage && l["code"] == nil {
			t.Errorf("no code: %v", l)
		}
		if !ofMessage {
			continue
		}
		if l["subject"] == nil || l["run"] == nil {
			t.Errorf("no subject or no run: %v", l)
		}
		if l["msg"] != "message not done" {
			continue
		}
		if l["run"] != "run_7" || l["code"] != string(fault.InvalidMessage) || l["trace"] != callerTrace || l["delivery"] != 1.0 {
			t.Errorf("%v", l)
		}
		if l["call"] != nil && (l["step"] != 3.0 || l["attempt"] == nil) {
			t.Errorf("no step or attempt: %v", l)
		}
	}
}
