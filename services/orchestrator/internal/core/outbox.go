package core

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// finish numbers the crumbs in the order of the package comment, seals the
// transcript, arms the timer and closes the decision.
func (d *decision) finish() {
	s := &d.s
	s.Decision++
	d.suspend()
	d.notify()
	if s.Status == Suspended {
		d.valueMax = SuspendedValueMax
	}
	d.arm()
	d.seal()
	all := d.ordered()
	for i, c := range all {
		base := c.Head()
		s.Seq++
		base.Seq = s.Seq
		if i == len(all)-1 && s.Status == Suspended {
			base.Suspended = true
		}
		if q, ok := c.(*crumbs.HumanRequired); ok {
			q.Suspended = base.Suspended
		}
		body, err := json.Marshal(c)
		if err != nil {
			panic(fmt.Sprintf("core: crumb %s does not encode: %v", base.Type, err))
		}
		s.Outbox.Crumbs = append(s.Outbox.Crumbs, Crumb{Seq: s.Seq, Type: base.Type, At: d.e.At, Body: d.value(body)})
	}
	s.Outbox.Intents = d.intents
	s.Version = s.written()
}

func (d *decision) ordered() []crumb {
	var all []crumb
	for _, group := range [][]crumb{d.resumed, d.steps, d.hooks, d.results, d.blocked, d.calls, d.asks, d.ends} {
		all = append(all, group...)
	}
	return all
}

// suspend marks a run that waits for nothing but people.
func (d *decision) suspend() {
	s := &d.s
	if s.Status.Ended() || s.Status == Stopping {
		return
	}
	s.Status = Running
	asking := false
	for _, c := range s.Calls {
		switch c.Phase {
		case Dispatched, Hooking, Waiting:
			return
		case Asking:
			asking = true
		}
	}
	if asking && s.Model == nil && s.Retry == nil {
		s.Status = Suspended
	}
}

func (d *decision) blob(data []byte) string {
	name := blobName(d.s.Run.ID, data)
	d.s.Blobs = append(d.s.Blobs, Blob{Name: name, Data: data})
	return name
}

// value keeps a value inline or puts it aside: a large one, and one of many.
func (d *decision) value(raw json.RawMessage) Value {
	if len(raw) <= RefMin || len(raw) <= d.valueMax && d.inline+len(raw) <= InlineMax {
		d.inline += len(raw)
		return Value{Inline: raw}
	}
	return Value{Ref: d.blob(raw), Bytes: len(raw)}
}

// aside puts an inline value aside that became too large to stay.
func (d *decision) aside(v *Value) {
	if len(v.Inline) > d.valueMax {
		*v = Value{Ref: d.blob(v.Inline), Bytes: len(v.Inline)}
	}
}

// joined is the JSON string of several, one after the other.
func (d *decision) joined(texts []Value) json.RawMessage {
	d.need(texts...)
	var whole strings.Builder
	for _, v := range texts {
		var part string
		if err := json.Unmarshal(d.load(v), &part); err != nil {
			panic("core: text of a step is no string: " + err.Error())
		}
		whole.WriteString(part)
	}
	return text(whole.String())
}

// load reads a value back: inline, of this decision, or brought by the event.
func (d *decision) load(v Value) json.RawMessage {
	if v.Ref == "" {
		return v.Inline
	}
	d.need(v)
	b, _ := d.find(v.Ref)
	return b
}

func (d *decision) base(typ string) crumbs.Base {
	return crumbs.Base{Type: typ, RunID: d.s.Run.ID, AgentID: d.s.Run.Agent, SessionID: d.s.Run.Session,
		Timestamp: d.e.At.UnixMilli(), Step: d.s.Step}
}

// check refuses a decision whose record would be too large. Most are far from
// that, so the record is encoded only when a rough sum says that it might be.
func (d *decision) check() error {
	if d.s.weight() < RecordMax/4 {
		return nil
	}
	_, err := d.s.Encode()
	return err
}

// Rough sizes of what a record holds beside its values.
const (
	weightBase  = 4 << 10
	weightEntry = 1 << 10
)

// weight is a rough size of the record: what its values hold, and something for
// each entry.
func (s State) weight() int {
	n := weightBase + s.Transcript.Bytes + weightEntry*(len(s.Calls)+len(s.Outbox.Crumbs)+len(s.Outbox.Intents)+len(s.Files)+len(s.Transcript.Segments))
	n += weightEntry*len(s.Rulings) + len(s.Run.Goal) + weightEntry*len(s.Run.Metadata)
	for _, f := range slices.Concat(s.Run.Attachments, s.Files) {
		n += len(f.URI) + len(f.Name)
	}
	if s.Stop != nil {
		n += faultWeight(s.Stop.Error)
	}
	if s.Result != nil {
		n += faultWeight(s.Result.Error) + len(s.Result.Output.Inline)
	}
	for _, c := range s.Outbox.Crumbs {
		n += len(c.Body.Inline)
	}
	if s.Closing != nil {
		n += faultWeight(s.Closing.Error)
	}
	for _, c := range s.Calls {
		if c.Failed != nil {
			n += weightEntry + faultWeight(c.Failed.Error)
		}
		if c.Chain != nil {
			n += weightEntry + faultWeight(c.Chain.Error)
		}
	}
	return n + s.inline()
}

// faultWeight is the size of what a fault may hold of someone else's text.
func faultWeight(e *fault.Error) int {
	if e == nil {
		return 0
	}
	context, err := json.Marshal(e.Context)
	if err != nil {
		panic("core: a fault does not encode: " + err.Error())
	}
	return len(e.Message) + len(context)
}
