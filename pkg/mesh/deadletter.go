package mesh

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Bounds of dead letters.
const (
	deadInlineMax = 512 << 10       // bytes that stay in the letter; a longer body is an object of blobs
	DeadScanMax   = 20_000          // letters that one list looks at
	deadBatch     = 500             // letters of one pull of a list
	deadWait      = 2 * time.Second // for one pull of a list
)

// DeadLetter keeps a message that was given up, as it came, with what an operator
// needs to know of it, and returns the letter's id: its sequence in DEADLETTER. A
// message is kept once, however often and by whomever it is given up. What only its
// receiver may see is withheld: see DeadWithheld.
func (c *Conn) DeadLetter(ctx context.Context, stream string, run crumbs.RunID, d *Delivery, reason error) (id uint64, err error) {
	if crumbs.CheckRunID("run", string(run)) != nil {
		run = ""
	}
	e := fault.From(reason)
	data, withheld := withhold(d.Data)
	m := &nats.Msg{Subject: crumbs.DeadSubject(crumbs.DeadLabel(stream, d.Subject), run, d.Sequence), Header: nats.Header{}}
	for k, v := range d.Header {
		if !jetstreamHeader(k) && !crumbs.DeadHeader(k) {
			m.Header[k] = v
		}
	}
	set := func(name, value string) {
		if value != "" {
			m.Header[name] = []string{headerText(value)}
		}
	}
	set(crumbs.DeadStream, stream)
	set(crumbs.DeadOfSubject, d.Subject)
	set(crumbs.DeadSequence, strconv.FormatUint(d.Sequence, 10))
	set(crumbs.DeadStored, timeText(d.Stored))
	set(crumbs.DeadDeliveries, strconv.Itoa(d.Count))
	set(crumbs.DeadCode, string(e.Code))
	set(crumbs.DeadReason, c.Secrets.Masker().Text(e.Message))
	set(DeadWithheld, strings.Join(withheld, ","))
	set(crumbs.DeadAt, timeText(time.Now()))
	set(crumbs.DeadBy, c.NATS.Opts.Name)
	set(crumbs.DeadMessageID, d.Header.Get(jetstream.MsgIDHeader))
	if m.Data, err = c.deadBody(ctx, m.Subject, run, data); err != nil {
		return 0, err
	}
	ack, err := c.Publish(ctx, m, jetstream.WithExpectLastSequencePerSubject(0))
	if errors.Is(err, ErrConflict) {
		kept, readErr := c.LastDirect(ctx, crumbs.StreamDead, m.Subject)
		if readErr != nil {
			return 0, readErr
		}
		if kept == nil { // no replica that answers has it yet: give up again later
			return 0, fault.New(fault.Unavailable, "read %s: the letter is kept, but not to be read yet", m.Subject)
		}
		if kept.Header.Get(crumbs.DeadStored) == m.Header.Get(crumbs.DeadStored) {
			return kept.Sequence, nil
		}
		delete(m.Header, jetstream.ExpectedLastSubjSeqHeader)
		ack, err = c.Publish(ctx, m) // another message: its stream was made anew since
	}
	if err != nil {
		return 0, err
	}
	c.measured.buried(ctx, stream, e.Code)
	return ack.Sequence, nil
}

// deadBody puts a body aside that would not fit beside its new headers.
func (c *Conn) deadBody(ctx context.Context, subject string, run crumbs.RunID, body []byte) ([]byte, error) {
	if len(body) <= deadInlineMax {
		return body, nil
	}
	name := BlobName(run, body)
	if err := c.Blobs(crumbs.DeadArea(subject)).Put(ctx, name, body); err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"dataref":{"object":%q,"bytes":%d}}`, name, len(body)), nil
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// DeadNote keeps what somebody did about a letter: an edit (data is the new body),
// a redrive, an answer or a close. It returns the note's id.
func (c *Conn) DeadNote(ctx context.Context, letter *Stored, act string, header map[string]string, data []byte) (id uint64, err error) {
	m := &nats.Msg{Subject: letter.Subject + "." + act, Header: nats.Header{}}
	for k, v := range letter.Header {
		if !jetstreamHeader(k) && k != crumbs.DeadAt && k != crumbs.DeadBy {
			m.Header[k] = v
		}
	}
	for k, v := range header {
		m.Header[k] = []string{headerText(v)}
	}
	if letter.Sequence > 0 {
		m.Header[crumbs.DeadOf] = []string{strconv.FormatUint(letter.Sequence, 10)}
	}
	m.Header[crumbs.DeadAct] = []string{act}
	m.Header[crumbs.DeadAt] = []string{timeText(time.Now())}
	if m.Data, err = c.deadBody(ctx, letter.Subject, crumbs.RunID(crumbs.Token(letter.Subject, 2)), data); err != nil {
		return 0, err
	}
	ack, err := c.Publish(ctx, m)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// DeadLetters visits the letters, or the notes on them, whose subject matches
// filter and whose id is at least from and below before, in the order of their ids,
// without their bodies. It fails with UNAVAILABLE.
func (c *Conn) DeadLetters(ctx context.Context, filter string, from, before uint64, visit func(Stored, int)) error {
	cons, err := c.JS.OrderedConsumer(ctx, crumbs.StreamDead, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{filter}, HeadersOnly: true, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(from, 1),
	})
	if err != nil {
		return unavailable(err, "list "+crumbs.StreamDead)
	}
	info, err := cons.Info(ctx)
	if err != nil {
		return unavailable(err, "list "+crumbs.StreamDead)
	}
	for left := info.NumPending; left > 0; {
		pull, cancel := context.WithTimeout(ctx, deadWait)
		defer cancel() // a pull that is left early must not wait for more
		batch, err := cons.Fetch(int(min(left, deadBatch)), jetstream.FetchContext(pull))
		if err != nil {
			return unavailable(err, "list "+crumbs.StreamDead)
		}
		got := uint64(0)
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			if err != nil {
				return unavailable(err, "list "+crumbs.StreamDead)
			}
			if meta.Sequence.Stream >= before {
				return nil
			}
			bytes, _ := strconv.Atoi(m.Headers().Get("Nats-Msg-Size")) // always there on headers alone
			visit(Stored{Subject: m.Subject(), Sequence: meta.Sequence.Stream, Header: m.Headers(), Time: meta.Timestamp}, bytes)
			left, got = meta.NumPending, got+1
		}
		if got == 0 {
			return unavailable(batch.Error(), "list "+crumbs.StreamDead)
		}
	}
	return nil
}
