package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// recording is what one run of the mesh says on NATS, in the order in which each
// of its writers says it. The floors say the same, so that their bodies, counts
// and reads are the mesh's by construction.
type recording struct {
	run       crumbs.RunID
	request   *nats.Msg
	decisions []decided
	calls     []called // in the order of their results
}

// decided is what the orchestrator does for one message.
type decided struct {
	reads    []read // through a leader, before the record
	record   *nats.Msg
	commands []*nats.Msg // in parallel
	crumbs   []*nats.Msg // one after the other, fenced
	final    *nats.Msg   // the record once more, after the last decision
}

// called is what a gateway or a tool worker does for one command.
type called struct {
	id     string // `<call>.<attempt>`
	claim  *nats.Msg
	deltas []*nats.Msg
	result *nats.Msg
}

type read struct{ stream, subject string }

const (
	recordPrefix = "$KV." + crumbs.BucketRuns + "."
	claimPrefix  = "$KV." + crumbs.BucketClaims + "."
	ackPrefix    = "$JS.ACK."
	readPrefix   = "$JS.API.STREAM.MSG.GET."
	expectPrefix = "Nats-Expected-"
	ttlHeader    = "Nats-TTL"
	idHeader     = "Nats-Msg-Id"
	targetHeader = "Nats-Schedule-Target"
	eventID      = "ce-id"
)

// heardMax bounds how many messages a recorded run may have.
const heardMax = 1000

// record lets the mesh carry one run out and writes down what is said.
func (l *live) record(ctx context.Context) (*recording, error) {
	heard := make(chan *nats.Msg, heardMax)
	sub, err := l.client.NATS.ChanSubscribe(">", heard)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // the place ends with the bench anyway
	r := &recording{run: crumbs.NewRunID()}
	if err := l.run(ctx, r.run); err != nil {
		return nil, err
	}
	w := writer{recording: r, calls: map[string]*called{}}
	over := time.After(runMax)
	for w.open() {
		select {
		case m := <-heard:
			if err := w.hear(m); err != nil {
				return nil, err
			}
		case <-over:
			return nil, errors.New("the recorded run did not write its final record")
		}
	}
	return r, r.check()
}

// writer sorts what is heard.
type writer struct {
	*recording
	calls map[string]*called
	reads []read
}

// open reports whether more is to come: the final record is the last a run writes.
func (w *writer) open() bool {
	n := len(w.decisions)
	return n == 0 || w.decisions[n-1].final == nil
}

func (w *writer) hear(m *nats.Msg) error {
	if strings.HasPrefix(m.Reply, ackPrefix) {
		return nil // a stored message on its way to a consumer
	}
	if stream, ok := strings.CutPrefix(m.Subject, readPrefix); ok {
		var get struct {
			Last string `json:"last_by_subj"`
		}
		if err := json.Unmarshal(m.Data, &get); err != nil {
			return err
		}
		w.reads = append(w.reads, read{stream, get.Last})
		return nil
	}
	if strings.HasPrefix(m.Subject, "run.request.") {
		w.request = template(m)
	}
	if !strings.Contains(m.Subject, string(w.run)) {
		return nil
	}
	head, _, _ := strings.Cut(m.Subject, ".")
	switch head {
	case "$KV":
		w.keyValue(m)
	case "timer", "crumb":
		return w.sent(m)
	case "delta":
		var base crumbs.DeltaBase
		if err := json.Unmarshal(m.Data, &base); err != nil {
			return err
		}
		c := w.call(crumbs.ModelCallID(w.run, base.Step).Attempt(base.Attempt))
		c.deltas = append(c.deltas, template(m))
	case "model", "tool":
		if verb := crumbs.Token(m.Subject, 1); verb == "call" {
			return w.sent(m)
		}
		c := w.call(m.Header.Get(eventID))
		c.result = template(m)
		w.recording.calls = append(w.recording.calls, *c)
	}
	return nil
}

func (w *writer) keyValue(m *nats.Msg) {
	if key, ok := strings.CutPrefix(m.Subject, claimPrefix); ok {
		_, key, _ = strings.Cut(key, ".") // tool or model
		_, id, _ := strings.Cut(key, ".") // its queue
		w.call(id).claim = template(m)
		return
	}
	if !strings.HasPrefix(m.Subject, recordPrefix) {
		return
	}
	if len(m.Header[ttlHeader]) > 0 {
		w.decisions[len(w.decisions)-1].final = template(m)
		return
	}
	w.decisions = append(w.decisions, decided{record: template(m), reads: w.reads})
	w.reads = nil
}

func (w *writer) sent(m *nats.Msg) error {
	if len(w.decisions) == 0 {
		return fmt.Errorf("%s was sent before the run had a record", m.Subject)
	}
	d := &w.decisions[len(w.decisions)-1]
	if strings.HasPrefix(m.Subject, "crumb.") {
		d.crumbs = append(d.crumbs, template(m))
		return nil
	}
	d.commands = append(d.commands, template(m))
	return nil
}

func (w *writer) call(id string) *called {
	c, ok := w.calls[id]
	if !ok {
		c = &called{id: id}
		w.calls[id] = c
	}
	return c
}

// template is a message without what its publisher expected of the stream.
func template(m *nats.Msg) *nats.Msg {
	t := &nats.Msg{Subject: m.Subject, Header: nats.Header{}, Data: m.Data}
	for k, v := range m.Header {
		if !strings.HasPrefix(k, expectPrefix) {
			t.Header[k] = v
		}
	}
	return t
}

// check refuses a recording that is not the run of the bench.
func (r *recording) check() error {
	whole := r.request != nil && len(r.decisions) == len(r.calls)+1
	for _, c := range r.calls {
		whole = whole && c.claim != nil && c.result != nil
	}
	if !whole || len(r.calls) != 3 {
		return fmt.Errorf("the recorded run has %d decisions and %d calls; expected 4 and 3", len(r.decisions), len(r.calls))
	}
	return nil
}

// of returns a message for another run: its subject and what NATS looks at are
// that run's, its body stays.
func (r *recording) of(m *nats.Msg, run crumbs.RunID) *nats.Msg {
	h := maps.Clone(m.Header)
	for _, k := range [...]string{idHeader, targetHeader} {
		if v := h[k]; len(v) > 0 {
			h[k] = []string{r.rename(v[0], run)}
		}
	}
	return &nats.Msg{Subject: r.rename(m.Subject, run), Header: h, Data: m.Data}
}

func (r *recording) rename(s string, run crumbs.RunID) string {
	return strings.ReplaceAll(s, string(r.run), string(run))
}

// Said is how often and with how many bytes of body a run writes each kind.
type Said struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	Bytes int    `json:"bytes"`
}

// said sums the recording up, a line a kind, in the order of their first message.
func (r *recording) said() []Said {
	sums := map[string]*Said{}
	var order []string
	add := func(kind string, all ...*nats.Msg) {
		if sums[kind] == nil {
			sums[kind] = &Said{Kind: kind}
			order = append(order, kind)
		}
		for _, m := range all {
			if m != nil {
				sums[kind].Count++
				sums[kind].Bytes += len(m.Data)
			}
		}
	}
	add("request", r.request)
	for _, d := range r.decisions {
		add("record (compare-and-set)", d.record, d.final)
		add("crumb (fenced)", d.crumbs...)
		for _, c := range d.commands {
			kind := "command"
			if strings.HasPrefix(c.Subject, "timer.") {
				kind = "timer"
			}
			add(kind, c)
		}
	}
	for _, c := range r.calls {
		add("claim (create)", c.claim)
		add("result", c.result)
		add("delta (memory)", c.deltas...)
	}
	out := make([]Said, 0, len(order))
	for _, k := range order {
		out = append(out, *sums[k])
	}
	reads := 0
	for _, d := range r.decisions {
		reads += len(d.reads)
	}
	return append(slices.Clip(out), Said{Kind: "read through a leader", Count: reads})
}

// consumers are the queues a replay works off, each as one of the mesh's services does.
func consumers() []struct{ stream, consumer string } {
	return []struct{ stream, consumer string }{
		{crumbs.StreamRequests, mesh.ConsumerRequests}, {crumbs.StreamInbox, mesh.ConsumerEvents},
		{crumbs.StreamModelCalls, mesh.ProviderConsumer(provider)}, {crumbs.StreamToolCalls, mesh.GroupConsumer(group)},
	}
}
