package mesh

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Reading a stream needs no handle of it: looking one up (STREAM.INFO) would show
// a process the subjects of everybody. What a read needs of NATS is its own
// subject: through the leader one for the whole stream, from any replica one for
// each subject, which is what a role may be given alone (docs/security.md).

// Bounds of a batch of direct reads.
const (
	batchMax      = 256
	batchBytesMax = 4 << 20
)

// Reading again what a replica does not have yet.
const (
	againMin   = 20 * time.Millisecond
	againMax   = 500 * time.Millisecond
	againTries = 12 // about four seconds
)

// Headers of a message read directly.
const (
	headerSubject  = "Nats-Subject"
	headerSequence = "Nats-Sequence"
	headerTime     = "Nats-Time-Stamp"
	headerPending  = "Nats-Num-Pending"
	headerStatus   = "Status"
	statusNotFound = "404"
	statusEnd      = "204"
)

// Stored is a message read back from its stream.
type Stored struct {
	Subject  string
	Sequence uint64
	Header   nats.Header
	Data     []byte
	Time     time.Time
}

// api is the subject of a JetStream request, as this connection's account knows it.
func (c *Conn) api(op string) string {
	if c.access.APIPrefix != "" {
		return c.access.APIPrefix + "." + op
	}
	return "$JS.API." + op
}

// Restricted reports whether this connection's account only imports what its role
// needs of the mesh: it may neither look at streams nor make consumers.
func (c *Conn) Restricted() bool { return c.access.APIPrefix != "" }

// getRequest is a request of STREAM.MSG.GET and DIRECT.GET.
type getRequest struct {
	Sequence uint64     `json:"seq,omitempty"`
	Last     string     `json:"last_by_subj,omitempty"`
	Next     string     `json:"next_by_subj,omitempty"`
	Start    *time.Time `json:"start_time,omitempty"`
	Batch    int        `json:"batch,omitempty"`
	MaxBytes int        `json:"max_bytes,omitempty"`
}

// Last returns the last message on a subject (wildcards allowed) of a stream, read
// through its leader; nil when there is none.
func (c *Conn) Last(ctx context.Context, stream, subject string) (*Stored, error) {
	return c.leader(ctx, stream, subject, getRequest{Last: subject})
}

// Message returns the message at a sequence of a stream, nil when it is gone.
func (c *Conn) Message(ctx context.Context, stream string, sequence uint64) (*Stored, error) {
	return c.leader(ctx, stream, stream, getRequest{Sequence: sequence})
}

// leader asks the stream's leader for one message.
func (c *Conn) leader(ctx context.Context, stream, what string, req getRequest) (*Stored, error) {
	reply, err := c.ask(ctx, "STREAM.MSG.GET."+stream, what, req)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Error *struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
		Message *struct {
			Subject  string    `json:"subject"`
			Sequence uint64    `json:"seq"`
			Header   []byte    `json:"hdrs"`
			Data     []byte    `json:"data"`
			Time     time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return nil, unavailable(err, "read "+what)
	}
	switch e := answer.Error; {
	case e != nil && e.Code == int(codeNoMessage):
		return nil, nil
	case e != nil && e.Code == int(codeNoStream):
		return nil, missingStream(stream)
	case e != nil:
		return nil, fault.New(fault.Unavailable, "read %s: NATS refused: %s (code %d)", what, e.Description, e.Code)
	case answer.Message == nil:
		return nil, fault.New(fault.Unavailable, "read %s: NATS answered with no message", what)
	}
	m := answer.Message
	s := &Stored{Subject: m.Subject, Sequence: m.Sequence, Data: m.Data, Time: m.Time}
	if len(m.Header) > 0 {
		if s.Header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
			return nil, unavailable(err, "headers of "+what)
		}
	}
	return s, nil
}

func missingStream(stream string) error {
	return fault.New(fault.TopologyMissing, "stream %s is missing; %s", stream, repairAll)
}

func (c *Conn) ask(ctx context.Context, op, what string, req any) (*nats.Msg, error) {
	var body []byte
	if req != nil {
		var err error
		if body, err = json.Marshal(req); err != nil {
			return nil, fault.From(err)
		}
	}
	ctx, cancel := c.limited(ctx)
	defer cancel()
	reply, err := c.NATS.RequestWithContext(ctx, c.api(op), body)
	if err != nil {
		return nil, unavailable(err, "read "+what)
	}
	return reply, nil
}

// limited bounds one raw request, also that of a context without a deadline.
func (c *Conn) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, requestTimeout)
}

// LastDirect is Last from whichever replica answers: what it returns was true, and
// may have been overtaken. A compare-and-set that fails on it proves that, and
// lastAbove waits for what came after.
func (c *Conn) LastDirect(ctx context.Context, stream, subject string) (*Stored, error) {
	reply, err := c.ask(ctx, "DIRECT.GET."+stream+"."+subject, subject, nil)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, missingStream(stream)
	case err != nil:
		return nil, err
	}
	return directly(reply)
}

// lastAbove reads a subject directly until its last message is after sequence: for
// whoever knows that there is such a message. It fails with UNAVAILABLE when none
// shows up.
func (c *Conn) lastAbove(ctx context.Context, stream, subject string, sequence uint64) (*Stored, error) {
	for try, delay := 1, againMin; ; try, delay = try+1, min(2*delay, againMax) {
		m, err := c.LastDirect(ctx, stream, subject)
		if err != nil {
			return nil, err
		}
		if m != nil && m.Sequence > sequence {
			return m, nil
		}
		if try == againTries {
			return nil, fault.New(fault.Unavailable, "read %s: what was written after sequence %d is on no replica that answers", subject, sequence)
		}
		if err := sleep(ctx, delay); err != nil {
			return nil, err
		}
	}
}

// directly reads an answer of DIRECT.GET: nil for no message.
func directly(m *nats.Msg) (*Stored, error) {
	switch status := m.Header.Get(headerStatus); status {
	case "":
	case statusNotFound, statusEnd:
		return nil, nil
	default:
		return nil, fault.New(fault.Unavailable, "direct read: NATS answered %s %s", status, m.Header.Get("Description"))
	}
	// The server writes its headers after those the message was stored with, whose
	// author may have used the same names: the last one is true.
	sequence, err := strconv.ParseUint(lastHeader(m.Header, headerSequence), 10, 64)
	if err != nil {
		return nil, unavailable(err, "direct read: header "+headerSequence)
	}
	at, err := time.Parse(time.RFC3339Nano, lastHeader(m.Header, headerTime))
	if err != nil {
		return nil, unavailable(err, "direct read: header "+headerTime)
	}
	return &Stored{Subject: lastHeader(m.Header, headerSubject), Sequence: sequence, Header: m.Header, Data: m.Data, Time: at}, nil
}

func lastHeader(h nats.Header, key string) string {
	values := h[key]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// Scan is where a reading of a stream's messages begins.
type Scan struct {
	Stream string
	Filter string    // subjects, wildcards allowed
	From   uint64    // first sequence; 0 = the oldest
	Since  time.Time // instead of From
}

// Batch reads the next messages of a scan, at most a few hundred, from whichever
// replica answers. pending is how many are stored after them. It needs no
// consumer.
func (c *Conn) Batch(ctx context.Context, s Scan) (messages []*Stored, pending uint64, err error) {
	req := getRequest{Sequence: s.From, Next: s.Filter, Batch: batchMax, MaxBytes: batchBytesMax}
	if s.From == 0 && !s.Since.IsZero() {
		req.Start = &s.Since
	} else {
		req.Sequence = max(1, s.From)
	}
	body, err := json.Marshal(req)
	if err != nil {
		return nil, 0, fault.From(err)
	}
	inbox := c.NATS.NewInbox()
	sub, err := c.NATS.SubscribeSync(inbox)
	if err != nil {
		return nil, 0, unavailable(err, "read "+s.Filter)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	ctx, cancel := c.limited(ctx)
	defer cancel()
	if err := c.NATS.PublishRequest(c.api("DIRECT.GET."+s.Stream), inbox, body); err != nil {
		return nil, 0, unavailable(err, "read "+s.Filter)
	}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if errors.Is(err, nats.ErrNoResponders) {
			return nil, 0, missingStream(s.Stream)
		}
		if err != nil {
			return nil, 0, unavailable(err, "read "+s.Filter)
		}
		got, err := directly(m)
		if err != nil {
			return nil, 0, err
		}
		if got == nil {
			pending, _ = strconv.ParseUint(m.Header.Get(headerPending), 10, 64) // absent: none
			return messages, pending, nil
		}
		messages = append(messages, got)
	}
}

// Visit reads all messages of a scan that are stored now, in order, until visit
// returns false.
func (c *Conn) Visit(ctx context.Context, s Scan, visit func(*Stored) bool) error {
	for {
		messages, pending, err := c.Batch(ctx, s)
		if err != nil {
			return err
		}
		for _, m := range messages {
			if !visit(m) {
				return nil
			}
			s.From, s.Since = m.Sequence+1, time.Time{}
		}
		if pending == 0 || len(messages) == 0 {
			return nil
		}
	}
}
