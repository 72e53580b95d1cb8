package crumbs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Event is a CloudEvent 1.0 of the mesh: attributes in `ce-*` headers, the bare
// JSON document as body (binary content mode of the NATS protocol binding).
type Event struct {
	ID      string // `<run>/<seq>`, `<call>.<attempt>`, a checkpoint or control id
	Source  string // //crumbmesh/<service>
	Type    string // dev.crumbmesh.….v1
	Subject string // run/<id>
	Time    time.Time

	RunID       RunID
	AgentID     AgentID
	SessionID   SessionID
	Sequence    uint64 // crumbs only
	TraceParent string // origin of the event, not of the hop
	TraceState  string
	DataRef     string // object of the claim check

	Data json.RawMessage
}

const (
	specVersion = "1.0"
	typePrefix  = "dev.crumbmesh."
	typeSuffix  = ".v1"
	wireInfix   = "wire."
	ceJSON      = "application/json"
	ceContent   = "application/cloudevents"
)

// CEType returns the CloudEvents type of a body type: crumbs (`tool:call`) are
// dev.crumbmesh.tool.call.v1, commands and outcomes (`tool.call`)
// dev.crumbmesh.wire.tool.call.v1.
func CEType(typ string) string {
	if strings.Contains(typ, ":") {
		return typePrefix + strings.ReplaceAll(typ, ":", ".") + typeSuffix
	}
	return typePrefix + wireInfix + typ + typeSuffix
}

// Source returns the ce-source of a service.
func Source(service string) string { return "//crumbmesh/" + service }

// Header returns the ce-* headers of e, percent-encoded as the NATS binding says.
func (e Event) Header() nats.Header {
	h := nats.Header{}
	set := func(name, value string) {
		if value != "" {
			h["ce-"+name] = []string{percentEncode(value)}
		}
	}
	set("specversion", specVersion)
	set("id", e.ID)
	set("source", e.Source)
	set("type", e.Type)
	set("subject", e.Subject)
	if !e.Time.IsZero() {
		set("time", e.Time.UTC().Format(time.RFC3339Nano))
	}
	set("datacontenttype", ceJSON)
	set("runid", string(e.RunID))
	set("agentid", string(e.AgentID))
	set("sessionid", string(e.SessionID))
	if e.Sequence > 0 {
		set("sequence", fmt.Sprintf("%010d", e.Sequence))
	}
	set("traceparent", e.TraceParent)
	set("tracestate", e.TraceState)
	set("dataref", e.DataRef)
	return h
}

// Check returns INVALID_MESSAGE unless the required attributes are there.
func (e Event) Check() error {
	for name, value := range map[string]string{"id": e.ID, "source": e.Source, "type": e.Type} {
		if value == "" {
			return fault.New(fault.InvalidMessage, "CloudEvents attribute %q is empty", name)
		}
	}
	if _, err := url.Parse(e.Source); err != nil {
		return fault.New(fault.InvalidMessage, "CloudEvents source %q is no URI reference", e.Source)
	}
	return nil
}

// Message returns e as a NATS message in binary content mode. It fails with
// INVALID_MESSAGE when a required attribute is missing or the data is not JSON.
func (e Event) Message(subject string) (*nats.Msg, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	if !json.Valid(e.Data) {
		return nil, fault.New(fault.InvalidMessage, "%s: the body is not JSON", e.Type)
	}
	return &nats.Msg{Subject: subject, Header: e.Header(), Data: e.Data}, nil
}

// ReadEvent reads a message in binary or structured content mode. A message
// without ce-* headers yields an Event with only Data (a bare `nats pub`). It
// fails with INVALID_MESSAGE on another spec version or a body that is not JSON.
func ReadEvent(h nats.Header, data []byte) (Event, error) {
	if strings.HasPrefix(strings.ToLower(headerFold(h, "content-type")), ceContent) {
		return readStructured(data)
	}
	attrs := map[string]string{}
	for name, values := range h {
		lower := strings.ToLower(name)
		if !strings.HasPrefix(lower, "ce-") || len(values) == 0 {
			continue
		}
		v, err := url.PathUnescape(values[0])
		if err != nil {
			return Event{}, fault.New(fault.InvalidMessage, "header %s: %q is not percent-encoded", name, clip(values[0], AttrMax))
		}
		attrs[strings.TrimPrefix(lower, "ce-")] = v
	}
	if len(attrs) == 0 {
		return Event{Data: data}, checkJSON(data)
	}
	e, err := fromAttributes(attrs)
	if err != nil {
		return Event{}, err
	}
	e.Data = data
	return e, checkJSON(data)
}

func checkJSON(data []byte) error {
	if json.Valid(data) {
		return nil
	}
	return fault.New(fault.InvalidMessage, "expected a JSON body, got %d bytes that are not JSON", len(data))
}

func readStructured(data []byte) (Event, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return Event{}, fault.New(fault.InvalidMessage, "structured CloudEvent is not a JSON object")
	}
	attrs := map[string]string{}
	for name, v := range raw {
		var s string
		if name != "data" && json.Unmarshal(v, &s) == nil {
			attrs[name] = s
		}
	}
	e, err := fromAttributes(attrs)
	if err != nil {
		return Event{}, err
	}
	e.Data = bytes.Clone(raw["data"])
	return e, checkJSON(e.Data)
}

func fromAttributes(a map[string]string) (Event, error) {
	if v := a["specversion"]; v != specVersion {
		return Event{}, fault.New(fault.InvalidMessage, "CloudEvents specversion %q: expected %q", clip(v, AttrMax), specVersion)
	}
	e := Event{ID: a["id"], Source: a["source"], Type: a["type"], Subject: a["subject"],
		RunID: RunID(a["runid"]), AgentID: AgentID(a["agentid"]), SessionID: SessionID(a["sessionid"]),
		TraceParent: a["traceparent"], TraceState: a["tracestate"], DataRef: a["dataref"]}
	if t := a["time"]; t != "" {
		at, err := time.Parse(time.RFC3339Nano, t)
		if err != nil {
			return Event{}, fault.New(fault.InvalidMessage, "ce-time %q: expected RFC 3339", clip(t, AttrMax))
		}
		e.Time = at
	}
	if s := a["sequence"]; s != "" {
		if _, err := fmt.Sscanf(s, "%d", &e.Sequence); err != nil {
			return Event{}, fault.New(fault.InvalidMessage, "ce-sequence %q: expected a number", clip(s, AttrMax))
		}
	}
	return e, e.Check()
}

// headerFold reads a header whatever its case.
func headerFold(h nats.Header, name string) string {
	for k, v := range h {
		if strings.EqualFold(k, name) && len(v) > 0 {
			return v[0]
		}
	}
	return ""
}

// percentEncode encodes what the NATS protocol binding says: space, quote,
// percent and everything outside printable ASCII, so that no value can end a
// header line.
func percentEncode(s string) string {
	const hex = "0123456789ABCDEF"
	clean := true
	for i := 0; i < len(s); i++ {
		if mustEncode(s[i]) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c := s[i]; mustEncode(c) {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func mustEncode(c byte) bool { return c <= 0x20 || c >= 0x7f || c == '"' || c == '%' }
