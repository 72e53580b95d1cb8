package crumbs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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

// Check returns INVALID_MESSAGE unless the required attributes are there and the
// source is a URI reference. Source("") is refused too: it names no service.
func (e Event) Check() error {
	for _, required := range [...]struct{ name, value string }{{"id", e.ID}, {"source", e.Source}, {"type", e.Type}} {
		if required.value == "" {
			return fault.New(fault.InvalidMessage, "CloudEvents attribute %q is empty", required.name)
		}
	}
	if e.Source == Source("") {
		return fault.New(fault.InvalidMessage, "CloudEvents source %q names no service", e.Source)
	}
	// url.Parse takes spaces, quotes and bytes outside ASCII, which RFC 3986 does not.
	if _, err := url.Parse(e.Source); err != nil || strings.IndexFunc(e.Source, notInURI) >= 0 {
		return fault.New(fault.InvalidMessage, "CloudEvents source %q is no URI reference", clip(e.Source, AttrMax))
	}
	return nil
}

func notInURI(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"<>\\^`{|}", r) }

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
	attrs, err := attributes(h)
	if err != nil {
		return Event{}, err
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

// attributes decodes the ce-* headers. An attribute given twice is refused: two
// readers could believe two different values.
func attributes(h nats.Header) (map[string]string, error) {
	attrs := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		attr, ok := strings.CutPrefix(strings.ToLower(name), "ce-")
		if !ok || len(h[name]) == 0 {
			continue
		}
		if _, twice := attrs[attr]; twice || len(h[name]) > 1 {
			return nil, fault.New(fault.InvalidMessage, "header ce-%s is given more than once: expected one value", clip(attr, AttrMax))
		}
		v, err := url.PathUnescape(h[name][0])
		if err != nil || !utf8.ValidString(v) {
			return nil, fault.New(fault.InvalidMessage, "header ce-%s: %q is not percent-encoded UTF-8", clip(attr, AttrMax), clip(h[name][0], AttrMax))
		}
		attrs[attr] = v
	}
	return attrs, nil
}

func checkJSON(data []byte) error {
	if json.Valid(data) && utf8.Valid(data) {
		return nil
	}
	return fault.New(fault.InvalidMessage, "expected a JSON body in UTF-8, got %d bytes that are not JSON", len(data))
}

func readStructured(data []byte) (Event, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return Event{}, fault.New(fault.InvalidMessage, "structured CloudEvent is not a JSON object")
	}
	attrs := map[string]string{}
	for name, v := range raw {
		var s string
		switch {
		case name == "data":
		case json.Unmarshal(v, &s) == nil:
			attrs[name] = s
		default:
			attrs[name] = string(v) // CloudEvents Integer and Boolean are bare in JSON
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
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return Event{}, fault.New(fault.InvalidMessage, "ce-sequence %q: expected a number", clip(s, AttrMax))
		}
		e.Sequence = n
	}
	return e, e.Check()
}

// headerFold reads a header whatever its case; of several spellings the first in
// order.
func headerFold(h nats.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	for _, k := range slices.Sorted(maps.Keys(h)) {
		if strings.EqualFold(k, name) && len(h[k]) > 0 {
			return h[k][0]
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
