package crumbs_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/textproto"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	ce "github.com/cloudevents/sdk-go/protocol/nats_jetstream/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/schemas"
)

// wireTypes are the commands and outcomes that have a schema (schemas/wire.*).
func wireTypes() []string {
	return []string{crumbs.TypeRunRequest, crumbs.TypeRunStart, crumbs.TypeRunControl, crumbs.TypeRunChild, crumbs.TypeTimerDue, crumbs.TypeCtlCancel,
		crumbs.TypeModelCall, crumbs.TypeModelResult, crumbs.TypeToolCall, crumbs.TypeToolResult, crumbs.TypeDecision}
}

func allTypes() []string {
	all := slices.Concat(crumbs.CrumbTypes(), crumbs.DeltaTypes(), wireTypes())
	slices.Sort(all)
	return slices.Compact(all) // a partial result is a delta, and a crumb when it is kept
}

// body returns the first valid golden of a type.
func body(t testing.TB, typ string) []byte {
	t.Helper()
	return bodies(t, typ)[0]
}

// bodies returns the valid goldens of a type that are no claim checks.
func bodies(t testing.TB, typ string) [][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "..", "schemas", "testdata", "valid", schemas.NameOf(typ), "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(path) != "claim-check.json" {
			all = append(all, text)
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no valid golden", typ)
	}
	return all
}

// event returns an event of a type with every attribute set.
func event(t testing.TB, typ string) crumbs.Event {
	t.Helper()
	return crumbs.Event{
		ID: "run_1/7", Source: crumbs.Source("orchestrator"), Type: crumbs.CEType(typ), Subject: "run/run_1",
		Time:  time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC),
		RunID: "run_1", AgentID: "reader", SessionID: "ses_1", Sequence: 7,
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", TraceState: "a=1,b=2", DataRef: "run_1/00ff",
		Data: body(t, typ),
	}
}

func TestEvent_TypesAreNamedAsTheDesignSays(t *testing.T) {
	t.Parallel()
	for typ, want := range map[string]string{
		"tool:call": "dev.crumbmesh.tool.call.v1", "agent:run:start": "dev.crumbmesh.agent.run.start.v1", "tool.call": "dev.crumbmesh.wire.tool.call.v1",
	} {
		if got := crumbs.CEType(typ); got != want {
			t.Errorf("CEType(%s) = %s, want %s", typ, got, want)
		}
	}
	seen := map[string]string{}
	for _, typ := range allTypes() {
		if other, ok := seen[crumbs.CEType(typ)]; ok {
			t.Errorf("%s and %s share a CloudEvents type", typ, other)
		}
		seen[crumbs.CEType(typ)] = typ
	}
}

// The official SDK reads what we write, for every type, with equal attributes,
// extensions and data; so does our reader.
func TestEvent_SDKReadsBinaryMode(t *testing.T) {
	t.Parallel()
	for _, typ := range allTypes() {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			want := event(t, typ)
			msg, err := want.Message("any.subject")
			if err != nil {
				t.Fatal(err)
			}
			sdk, err := binding.ToEvent(context.Background(), ce.NewMessage(msg))
			if err != nil {
				t.Fatal(err)
			}
			if err := sdk.Validate(); err != nil {
				t.Fatal(err)
			}
			got := crumbs.Event{ID: sdk.ID(), Source: sdk.Source(), Type: sdk.Type(), Subject: sdk.Subject(), Time: sdk.Time(), Data: sdk.Data()}
			plain := want
			plain.RunID, plain.AgentID, plain.SessionID, plain.Sequence, plain.TraceParent, plain.TraceState, plain.DataRef = "", "", "", 0, "", "", ""
			if diff := cmp.Diff(plain, got); diff != "" {
				t.Errorf("attributes or data (-wrote +read):\n%s", diff)
			}
			extensions := map[string]any{"runid": "run_1", "agentid": "reader", "sessionid": "ses_1", "sequence": "0000000007",
				"traceparent": want.TraceParent, "tracestate": want.TraceState, "dataref": want.DataRef}
			if diff := cmp.Diff(extensions, sdk.Extensions()); diff != "" {
				t.Errorf("extensions (-wrote +read):\n%s", diff)
			}
			if sdk.SpecVersion() != "1.0" || sdk.DataContentType() != "application/json" {
				t.Errorf("specversion %q, datacontenttype %q", sdk.SpecVersion(), sdk.DataContentType())
			}

			ours, err := crumbs.ReadEvent(msg.Header, msg.Data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, ours); diff != "" {
				t.Errorf("our reader (-wrote +read):\n%s", diff)
			}
		})
	}
}

func TestEvent_StructuredModeIsRead(t *testing.T) {
	t.Parallel()
	want := event(t, crumbs.TypeToolCalled)
	msg, err := want.Message("any.subject")
	if err != nil {
		t.Fatal(err)
	}
	sdk, err := binding.ToEvent(context.Background(), ce.NewMessage(msg))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(sdk)
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range []nats.Header{
		{"content-type": {"application/cloudevents+json"}},
		{"Content-Type": {"application/cloudevents+json; charset=UTF-8"}},
	} {
		got, err := crumbs.ReadEvent(header, text)
		if err != nil {
			t.Fatal(err)
		}
		if !sameJSON(t, want.Data, got.Data) {
			t.Errorf("data %s, want %s", got.Data, want.Data)
		}
		got.Data = want.Data
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("structured (-wrote +read):\n%s", diff)
		}
	}

	got, err := crumbs.ReadEvent(nats.Header{"content-type": {"application/cloudevents+json"}},
		[]byte(`{"specversion":"1.0","id":"1","source":"//x/y","type":"t","sequence":12,"data":null}`))
	if err != nil || got.Sequence != 12 || string(got.Data) != "null" {
		t.Errorf("an Integer sequence and null data: got %+v, %v", got, err)
	}
}

func TestEvent_BareJSONHasOnlyData(t *testing.T) {
	t.Parallel()
	got, err := crumbs.ReadEvent(nats.Header{"Nats-Msg-Id": {"x"}}, []byte(`{"path":"a"}`))
	if err != nil || !reflect.DeepEqual(got, crumbs.Event{Data: json.RawMessage(`{"path":"a"}`)}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Values are percent-encoded as the binding says; CR and LF never make a header.
func TestEvent_F123_ValuesArePercentEncoded(t *testing.T) {
	t.Parallel()
	want := event(t, crumbs.TypeToolCalled)
	want.Subject = `zürich "a" 100%`
	want.TraceState = "a=1\r\nce-id: forged\r\n\r\n{}"
	msg, err := want.Message("any.subject")
	if err != nil {
		t.Fatal(err)
	}
	if got := msg.Header["ce-subject"]; !slices.Equal(got, []string{"z%C3%BCrich%20%22a%22%20100%25"}) {
		t.Errorf("ce-subject is %q", got)
	}
	got, err := crumbs.ReadEvent(overTheWire(t, msg.Header), msg.Data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("round trip (-wrote +read):\n%s", diff)
	}
}

// overTheWire writes headers as the protocol does, raw, and reads them back.
func overTheWire(t testing.TB, h nats.Header) nats.Header {
	t.Helper()
	var b strings.Builder
	b.WriteString("NATS/1.0\r\n")
	for name, values := range h {
		for _, v := range values {
			b.WriteString(name + ": " + v + "\r\n")
		}
	}
	b.WriteString("\r\n")
	got, err := nats.DecodeHeadersMsg([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(h) {
		t.Fatalf("wrote %d headers, read %d: %v", len(h), len(got), got)
	}
	return got
}

// Our own ids need no encoding, so readers that do not decode agree with us.
func TestEvent_F123_OurValuesAreTheirOwnEncoding(t *testing.T) {
	t.Parallel()
	run := crumbs.NewRunID()
	e := event(t, crumbs.TypeToolCalled)
	e.ID, e.Subject, e.RunID, e.SessionID = string(run)+"/7", "run/"+string(run), run, crumbs.NewSessionID()
	for name, values := range e.Header() {
		if strings.Contains(values[0], "%") {
			t.Errorf("%s: %q is encoded", name, values[0])
		}
	}
}

// A strict validator takes the attributes of every type.
func TestEvent_F124_AttributesAreStrictForEveryType(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^ce-[a-z0-9]{1,20}$`)
	uri := regexp.MustCompile(`^[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+$`)
	for _, typ := range allTypes() {
		h := event(t, typ).Header()
		for key, values := range h {
			if !name.MatchString(key) || len(values) != 1 || values[0] == "" {
				t.Errorf("%s: header %q: %q", typ, key, values)
			}
		}
		for _, required := range []string{"ce-id", "ce-source", "ce-type", "ce-specversion"} {
			if len(h[required]) == 0 {
				t.Errorf("%s: %s is missing", typ, required)
			}
		}
		if _, err := time.Parse(time.RFC3339, h["ce-time"][0]); err != nil {
			t.Errorf("%s: ce-time: %v", typ, err)
		}
		if !uri.MatchString(h["ce-source"][0]) {
			t.Errorf("%s: ce-source %q is no URI reference", typ, h["ce-source"])
		}
	}
}

func TestEvent_F125_EmptyOrBrokenAttributesAreRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*crumbs.Event){
		"source empty":          func(e *crumbs.Event) { e.Source = "" },
		"source of no service":  func(e *crumbs.Event) { e.Source = crumbs.Source("") },
		"source with a space":   func(e *crumbs.Event) { e.Source = crumbs.Source("a b") },
		"source with a percent": func(e *crumbs.Event) { e.Source = crumbs.Source("a%") },
		"source with CR LF":     func(e *crumbs.Event) { e.Source = crumbs.Source("a\r\nb") },
		"source not ASCII":      func(e *crumbs.Event) { e.Source = crumbs.Source("zürich") },
		"id empty":              func(e *crumbs.Event) { e.ID = "" },
		"type empty":            func(e *crumbs.Event) { e.Type = "" },
		"data not JSON":         func(e *crumbs.Event) { e.Data = json.RawMessage(`{"a":`) },
		"data empty":            func(e *crumbs.Event) { e.Data = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := event(t, crumbs.TypeToolCalled)
			change(&e)
			msg, err := e.Message("any.subject")
			if msg != nil || !errors.Is(err, fault.Of(fault.InvalidMessage)) {
				t.Errorf("got %v, %v, want INVALID_MESSAGE", msg, err)
			}
		})
	}
}

// What a reader refuses, with INVALID_MESSAGE.
func TestEvent_CF_N17_MalformedMessagesAreRefused(t *testing.T) {
	t.Parallel()
	with := func(name string, values ...string) nats.Header {
		h := event(t, crumbs.TypeToolCalled).Header()
		h[name] = values
		return h
	}
	structured := nats.Header{"content-type": {"application/cloudevents+json"}}
	for name, c := range map[string]struct {
		header nats.Header
		data   string
		says   string
	}{
		"bare, not JSON":             {nil, `{"a":`, "not JSON"},
		"bare, empty":                {nil, ``, "0 bytes"},
		"binary, not JSON":           {with("ce-subject", "s"), `hello`, "not JSON"},
		"specversion 0.3":            {with("ce-specversion", "0.3"), `{}`, `expected "1.0"`},
		"specversion missing":        {with("ce-specversion"), `{}`, `expected "1.0"`},
		"id missing":                 {with("ce-id"), `{}`, `"id" is empty`},
		"type missing":               {with("ce-type"), `{}`, `"type" is empty`},
		"source missing":             {with("ce-source"), `{}`, `"source" is empty`},
		"time is no time":            {with("ce-time", "yesterday"), `{}`, "RFC 3339"},
		"sequence is no number":      {with("ce-sequence", "12x"), `{}`, "expected a number"},
		"sequence is negative":       {with("ce-sequence", "-1"), `{}`, "expected a number"},
		"percent of nothing":         {with("ce-subject", "100%"), `{}`, "percent-encoded"},
		"percent of no UTF-8":        {with("ce-subject", "%FF"), `{}`, "percent-encoded"},
		"attribute of two values":    {with("ce-runid", "a", "b"), `{}`, "more than once"},
		"attribute in two spellings": {with("Ce-Runid", "b"), `{}`, "more than once"},
		"structured, a list":         {structured, `[]`, "not a JSON object"},
		"structured, cut":            {structured, `{"specversion":`, "not a JSON object"},
		"structured, no data":        {structured, `{"specversion":"1.0","id":"1","source":"//x/y","type":"t"}`, "0 bytes"},
		"structured, no specversion": {structured, `{"id":"1","source":"//x/y","type":"t","data":{}}`, `expected "1.0"`},
		"structured, id is empty":    {structured, `{"specversion":"1.0","id":"","source":"//x/y","type":"t","data":{}}`, `"id" is empty`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := crumbs.ReadEvent(c.header, []byte(c.data))
			if !errors.Is(err, fault.Of(fault.InvalidMessage)) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want INVALID_MESSAGE that says %q", err, c.says)
			}
		})
	}
}

// An error crumb keeps code, message and context; cause and stack never leave.
func TestEvent_CF_N16_ErrorCrumbKeepsNoCause(t *testing.T) {
	t.Parallel()
	secret := errors.New("dial tcp 10.0.0.7: password hunter2")
	want := crumbs.AgentError{
		Base:  crumbs.Base{Type: crumbs.TypeAgentError, RunID: "run_1", AgentID: "reader", SessionID: "ses_1", Seq: 9, Timestamp: 1},
		Error: fault.Wrap(fault.Unavailable, secret, "NATS did not answer").With("subject", "run.request.reader"), DurationMs: 12,
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "hunter2") || strings.Contains(strings.ToLower(string(text)), "stack") {
		t.Fatalf("the cause crossed: %s", text)
	}
	msg, err := crumbs.Event{ID: "run_1/9", Source: crumbs.Source("orchestrator"), Type: crumbs.CEType(want.Type), Data: text}.Message("any.subject")
	if err != nil {
		t.Fatal(err)
	}
	e, err := crumbs.ReadEvent(msg.Header, msg.Data)
	if err != nil {
		t.Fatal(err)
	}
	var got crumbs.AgentError
	if err := crumbs.Decode(crumbs.TypeAgentError, e.Data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Error.Code != fault.Unavailable || got.Error.Message != "NATS did not answer" || got.Error.Context["subject"] != "run.request.reader" {
		t.Errorf("got %+v", got.Error)
	}
	if errors.Unwrap(got.Error) != nil {
		t.Errorf("a cause came over: %v", errors.Unwrap(got.Error))
	}
}

func sameJSON(t testing.TB, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}

// Whatever comes in, the reader does not panic; what it takes it writes again
// as headers of one line each and reads back the same.
func FuzzReadEvent(f *testing.F) {
	f.Add("ce-subject", "run/run_1", "", []byte(`{}`))
	f.Add("ce-subject", "z%C3%BCrich%20%22a%22%20100%25", "", []byte(`{"a":1}`))
	f.Add("ce-tracestate", "a%0D%0Ace-id:%20x", "", []byte(`null`))
	f.Add("Ce-Id", "2", "", []byte(`{}`))
	f.Add("ce-sequence", "0000000012", "", []byte(`{}`))
	f.Add("ce-time", "2026-03-04T05:06:07.008+02:00", "", []byte(`{}`))
	f.Add("ce-source", "//crumbmesh/a%20b", "", []byte(`{}`))
	f.Add("x", "", "application/cloudevents+json", []byte(`{"specversion":"1.0","id":"1","source":"//x/y","type":"t","sequence":1,"data":{"a":1}}`))
	f.Add("x", "", "application/cloudevents-batch+json", []byte(`[]`))
	f.Add("x", "", "", []byte(`{"a":`))
	f.Fuzz(func(t *testing.T, name, value, contentType string, data []byte) {
		h := nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"//x/y"}, "ce-type": {"t"}}
		if textproto.CanonicalMIMEHeaderKey(name) == textproto.CanonicalMIMEHeaderKey("content-type") {
			return
		}
		h[name] = []string{value}
		if contentType != "" {
			h["content-type"] = []string{contentType}
		}
		e, err := crumbs.ReadEvent(h, data)
		if err != nil {
			if fault.CodeOf(err) != fault.InvalidMessage {
				t.Fatalf("refused with %v, want INVALID_MESSAGE", err)
			}
			return
		}
		for key, values := range e.Header() {
			if strings.ContainsAny(values[0], "\r\n \"") {
				t.Fatalf("%s: %q could end its line", key, values[0])
			}
		}
		again, err := crumbs.ReadEvent(overTheWire(t, e.Header()), e.Data)
		if err != nil {
			t.Fatalf("does not read what it wrote: %v", err)
		}
		if !again.Time.Equal(e.Time) {
			t.Fatalf("time %v became %v", e.Time, again.Time)
		}
		again.Time = e.Time
		if diff := cmp.Diff(e, again); diff != "" {
			t.Fatalf("(-read +read again):\n%s", diff)
		}
	})
}
