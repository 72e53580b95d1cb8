package canary_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/crumbmesh/crumbmesh/internal/fleet"
	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/program"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// The secrets: of a tool, of a command's environment, of the model gateway.
const (
	token    = "s3cr3t-canary-of-a-tool"
	variable = "v4r1able-canary-of-a-command"
	key      = "sk-marker-123"
)

// What a client sends along: baggage that nobody asked for, and what only a tool
// provider may see. Both are in the client's own message and stay there.
const (
	baggage  = "b4ggage-canary"
	provided = "pr0vided-canary"
)

// encoded are the forms of a secret that are looked for.
func encoded(s string) []string {
	out := []string{s}
	for before := range 3 {
		// In the middle of a longer text, whatever stands around it.
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x00", before) + s + "\x00\x00"))
		out = append(out, text[4:len(text)-4])
	}
	return append(out, fmt.Sprintf("%x", s))
}

// shared is a log that all services write into.
type shared struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

const group = "bench"

type empty struct{}

// tools say their secret in every way they have.
func tools(received *[]string) []tool.Tool {
	conceal := func(ctx tool.Context) error {
		ctx.Logger.Info("not known yet")
		err := ctx.Conceal("TOKEN", token)
		ctx.Logger.Info("the token is "+token, "token", token, "error", errors.New(token), "request", map[string]string{"Authorization": token})
		return err
	}
	leak := tool.DefineStream("leak", "Leaks.", func(ctx tool.Context, _ empty) iter.Seq2[any, error] {
		return func(yield func(any, error) bool) {
			for _, v := range []any{token, map[string]any{token: []string{base64.StdEncoding.EncodeToString([]byte("user:" + token))}}, "half of it is " + token[:10], token[10:] + " is the rest", map[string]string{"t": token}} {
				if !yield(v, conceal(ctx)) {
					return
				}
			}
		}
	}, tool.Effect(crumbs.EffectPure))
	fails := tool.Define("fails", "Fails.", func(ctx tool.Context, _ empty) (string, error) {
		return "", errors.Join(conceal(ctx), fmt.Errorf("401 for https://x.test/?t=%s", token))
	}, tool.Effect(crumbs.EffectPure))
	faults := tool.Define("faults", "Returns a fault.", func(ctx tool.Context, _ empty) (string, error) {
		_ = conceal(ctx)
		return "", fault.New(fault.ToolError, "refused %s", token).With("headers", map[string]string{"Authorization": "Bearer " + token})
	}, tool.Effect(crumbs.EffectPure))
	panics := tool.Define("panics", "Panics.", func(ctx tool.Context, _ empty) (string, error) {
		_ = conceal(ctx)
		panic("token " + token)
	}, tool.Effect(crumbs.EffectPure))
	type note struct {
		Note string `json:"note"`
	}
	pay := tool.Define("pay", "Pays.", func(ctx tool.Context, in note) (string, error) {
		*received = append(*received, in.Note)
		return "paid with " + token, conceal(ctx)
	})
	shell := func(name, script string, opts ...tool.Option) tool.Tool {
		p := program.Program{Command: []string{"sh", "-c", script}, Env: []string{"LEDGER_TOKEN"}, Lookup: func(name string) (string, bool) {
			if name == "LEDGER_TOKEN" {
				return variable, true
			}
			return os.LookupEnv(name)
		}}
		return p.Tool(name, "A command.", append(opts, tool.Effect(crumbs.EffectPure))...)
	}
	return []tool.Tool{leak, fails, faults, panics, pay,
		shell("prints", `echo "{\"env\":\"$LEDGER_TOKEN\"}"`),
		shell("complains", `echo "no such token: $LEDGER_TOKEN" >&2; exit 3`),
		shell("babbles", `printf '%s' "token=$LEDGER_TOKEN"`),
	}
}

// leaker calls all of them, asks before it pays with a key in its arguments, and
// says everything again.
func leaker(names []string) *agent.Definition {
	// The key is in no definition: only the gateway, which renders this, makes it.
	const said = `{{ printf "sk-%s-%d" "marker" 123 }}`
	first := agent.Turn{Chunks: []string{"My key is " + said, ` or {{ printf "sk-ma" }}`, `{{ printf "rker-123" }}.`}, Reasoning: said}
	d := &agent.Definition{
		ID: "leaker", Model: agent.Model{Provider: "script", Model: "main"}, Output: agent.Output{Format: agent.FormatText}, Steps: agent.Steps{Max: 9},
		Permissions: perm.Lists{Ask: []string{"tool:pay"}},
	}
	for _, name := range names {
		d.Tools = append(d.Tools, agent.Tool{Name: name, Worker: &agent.Worker{Group: group, Tool: name}})
		if name != "pay" {
			first.ToolCalls = append(first.ToolCalls, agent.ScriptCall{Name: "tool_" + name})
		}
	}
	d.Scripts = map[string]agent.Script{"main": {Name: "main", Turns: []agent.Turn{
		first,
		{ToolCalls: []agent.ScriptCall{{Name: "tool_pay", Args: json.RawMessage(`{"note":"for ` + strings.ReplaceAll(said, `"`, `\"`) + `"}`)}}},
		{Text: "{{ .results | json }} {{ .prompt | json }} " + said},
	}}}
	return d
}

// F158, F159, F160: secrets are let loose, and found nowhere but where they were let.
func TestCanary_F158_F159_F160_SecretsAreFoundNowhere(t *testing.T) {
	var log shared
	spans := tracetest.NewSpanRecorder()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	m := meshtest.Start(t, meshtest.WithTopology([]string{group}, []string{"script"}),
		meshtest.WithLog(slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	f := fleet.New(t, m)
	f.Approvals()
	if err := f.Gateway().Conn.Secrets.Add("ACME_KEY", key); err != nil {
		t.Fatal(err)
	}
	var received []string
	all := tools(&received)
	worker := f.Tools(group, all...)
	f.Orchestrator(func(c *orchestrator.Config) { c.Trace = true })
	var names []string
	for _, one := range all {
		names = append(names, one.Name())
	}
	f.Apply([]string{group}, leaker(names))

	request(t, f, `{"runId":"run_1"}`)
	request(t, f, `{"runId":"run_2","toolProviderContext":{"key":"`+provided+`"}}`)
	if refused := f.WaitEnd("run_2"); !bytes.Contains(refused[len(refused)-1].Body, []byte(fault.NotAvailable)) {
		t.Errorf("a context for tool providers, of which there are none: %s", refused[len(refused)-1].Body)
	}
	asked := question(t, f.WaitSuspended("run_1"))
	if string(asked.Args) != `{"note":"for [ACME_KEY]"}` {
		t.Errorf("the question is about %s", asked.Args)
	}
	if _, err := f.Approve(asked.CheckpointID); err != nil {
		t.Fatal(err)
	}
	crumbsOfRun := f.WaitEnd("run_1")
	if last := crumbsOfRun[len(crumbsOfRun)-1]; last.Base.Type != crumbs.TypeRunEnded || !bytes.Contains(last.Body, []byte("[TOKEN]")) || !bytes.Contains(last.Body, []byte("[LEDGER_TOKEN]")) {
		t.Errorf("the run ended with %.2000s", last.Body)
	}
	f.WaitTrimmed("run_1")
	// What was approved is what ran: the hash that the approval is bound to is that of
	// the arguments as they were shown, and the tool got those.
	if len(received) != 1 || received[0] != "for [ACME_KEY]" {
		t.Errorf("the tool received %q", received)
	}
	worker.Stop()

	found := map[string]string{}
	for _, secret := range []string{token, variable, key} {
		for _, form := range encoded(secret) {
			found[form] = secret
		}
	}
	for _, secret := range []string{baggage, provided} {
		found[secret] = secret
	}
	look := func(where string, data []byte) {
		for form, secret := range found {
			if (secret == baggage || secret == provided) && strings.Contains(where, crumbs.StreamRequests) {
				continue
			}
			if at := bytes.Index(data, []byte(form)); at >= 0 {
				t.Errorf("%s: %s as %q: …%q…", where, secret, form, data[max(0, at-120):min(len(data), at+len(form)+20)])
			}
		}
	}
	look("log", []byte(log.String()))
	for _, s := range spans.Ended() {
		look("span", []byte(fmt.Sprintf("%s %v %v %v", s.Name(), s.Attributes(), s.Events(), s.Status())))
	}
	for _, stream := range streams(t, f) {
		for _, msg := range f.Messages(stream, ">") {
			look(stream+" "+msg.Subject(), append(fmt.Appendf(nil, "%v", msg.Headers()), msg.Data()...))
		}
	}
	files := 0
	err := filepath.WalkDir(m.Store(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files++
		look(strings.TrimPrefix(path, m.Store()), data)
		return err
	})
	if err != nil || files < 10 {
		t.Errorf("%d files looked at, %v", files, err)
	}
	if !strings.Contains(log.String(), "the token is [TOKEN]") || !strings.Contains(log.String(), "tool panicked") || len(spans.Ended()) < 10 {
		t.Errorf("%d spans, and a log without what tools log:\n%.4000s", len(spans.Ended()), log.String())
	}
}

// request asks for a run with eight kilobytes of baggage.
func request(t *testing.T, f *fleet.Fleet, body string) {
	t.Helper()
	msg := &nats.Msg{Subject: crumbs.RequestSubject("leaker"), Data: []byte(body), Header: nats.Header{
		"traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		"baggage":     {"account=" + baggage + ",rest=" + strings.Repeat("x", 8<<10)},
	}}
	if _, err := f.Mesh.Conn.Publish(context.Background(), msg); err != nil {
		t.Fatal(err)
	}
}

// streams are the names of all streams, those of buckets and objects too.
func streams(t *testing.T, f *fleet.Fleet) []string {
	t.Helper()
	var out []string
	names := f.Mesh.Conn.JS.StreamNames(context.Background())
	for name := range names.Name() {
		s, err := f.Mesh.Conn.JS.Stream(context.Background(), name)
		if err != nil {
			t.Fatal(err)
		}
		if s.CachedInfo().Config.Retention == jetstream.LimitsPolicy { // work queues are empty, and their files are looked at
			out = append(out, name)
		}
	}
	if names.Err() != nil || len(out) < 10 {
		t.Fatalf("streams %v, %v", out, names.Err())
	}
	return out
}

// question is the one that the crumbs ask.
func question(t *testing.T, all []fleet.Stored) (q crumbs.HumanRequired) {
	t.Helper()
	for _, c := range all {
		if c.Base.Type == crumbs.TypeHumanRequired {
			if err := json.Unmarshal(c.Body, &q); err != nil {
				t.Fatal(err)
			}
			return q
		}
	}
	t.Fatalf("no question: %s", all[len(all)-1].Body)
	return q
}
