package mesh_test

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// A message that can only be given up is given up, however large it is: its body
// is an object.
func TestDeadLetter_P9_LargeBodyIsPutAside(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	large := bytes.Repeat([]byte("x"), 950<<10)
	d := &mesh.Delivery{Subject: "tool.result.demo.run_1.run_1-1-0-1", Sequence: 3, Data: large}
	id, err := m.Conn.DeadLetter(t.Context(), crumbs.StreamInbox, "run_1", d, errors.New("garbage"))
	if err != nil {
		t.Fatal(err)
	}
	dead, err := m.Conn.Message(t.Context(), crumbs.StreamDead, id)
	if err != nil || dead == nil {
		t.Fatal(dead, err)
	}
	whole, err := m.Conn.Blobs(crumbs.DeadArea(dead.Subject)).CheckOut(t.Context(), dead.Data)
	if err != nil || !bytes.Equal(whole, large) {
		t.Errorf("%d bytes are kept, %v; want all %d", len(whole), err, len(large))
	}
}

// What an operator needs stands in the letter's headers; the message's own are kept,
// those of JetStream and of another letter are not.
func TestDeadLetter_SaysWhatItWas(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	stored := time.Date(2026, 11, 30, 9, 0, 0, 1000, time.UTC)
	d := &mesh.Delivery{Subject: "run.request.clerk", Sequence: 42, Count: 3, Stored: stored, Data: []byte("{"), Header: nats.Header{
		"ce-id": {"run_1"}, "traceparent": {"00-x"}, "Nats-Msg-Id": {"run_1"}, "Nats-Expected-Stream": {"REQUESTS"}, "crumb-dead-of": {"7"}}}
	id, err := m.Conn.DeadLetter(t.Context(), crumbs.StreamRequests, "run_1", d, fault.New(fault.InvalidMessage, "no JSON\nat all"))
	if err != nil {
		t.Fatal(err)
	}
	dead, err := m.Conn.Message(t.Context(), crumbs.StreamDead, id)
	if err != nil || dead == nil || dead.Subject != "dead.REQUESTS.run_1.42" || string(dead.Data) != "{" {
		t.Fatalf("%+v %v", dead, err)
	}
	for name, want := range map[string]string{
		"ce-id": "run_1", "traceparent": "00-x", "Nats-Msg-Id": "", "Nats-Expected-Stream": "", "crumb-dead-of": "",
		crumbs.DeadStream: "REQUESTS", crumbs.DeadOfSubject: "run.request.clerk", crumbs.DeadSequence: "42", crumbs.DeadDeliveries: "3",
		crumbs.DeadStored: "2026-11-30T09:00:00.000001Z", crumbs.DeadMessageID: "run_1", crumbs.DeadCode: "INVALID_MESSAGE",
		crumbs.DeadReason: "no JSON at all", crumbs.DeadBy: "test",
	} {
		if got := dead.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if _, err := time.Parse(time.RFC3339Nano, dead.Header.Get(crumbs.DeadAt)); err != nil {
		t.Error(err)
	}
}

// A message is kept once, whoever gives it up and however often; one of the same
// number in a stream that was made anew is another message.
func TestDeadLetter_IsKeptOnce(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	other := m.Connect("other")
	d := &mesh.Delivery{Subject: "tool.call.demo.run_1", Sequence: 5, Stored: time.Now(), Data: []byte("{}")}
	first, err := m.Conn.DeadLetter(t.Context(), crumbs.StreamToolCalls, "run_1", d, errors.New("one"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := other.DeadLetter(t.Context(), crumbs.StreamToolCalls, "run_1", d, errors.New("two"))
	if err != nil || again != first {
		t.Errorf("kept as %d and as %d, %v", first, again, err)
	}
	anew := *d
	anew.Stored = d.Stored.Add(time.Hour)
	third, err := m.Conn.DeadLetter(t.Context(), crumbs.StreamToolCalls, "run_1", &anew, errors.New("three"))
	if err != nil || third == first {
		t.Errorf("another message is kept as %d, %v", third, err)
	}
}

// Letters are listed from a number on, up to another, without the notes on them.
func TestDeadLetters_List(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	var ids []uint64
	for i := range 7 {
		run := crumbs.RunID("run_" + strconv.Itoa(i%2))
		d := &mesh.Delivery{Subject: "run.request.clerk", Sequence: uint64(i + 1), Data: bytes.Repeat([]byte("x"), i)}
		id, err := m.Conn.DeadLetter(t.Context(), crumbs.StreamRequests, run, d, errors.New("no"))
		if err != nil {
			t.Fatal(err)
		}
		letter, err := m.Conn.Message(t.Context(), crumbs.StreamDead, id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Conn.DeadNote(t.Context(), letter, crumbs.ActRedrive, map[string]string{crumbs.DeadActor: "local:ada"}, nil); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	list := func(filter string, from, before uint64) (got []string) {
		err := m.Conn.DeadLetters(t.Context(), filter, from, before, func(s mesh.Stored, bytes int) {
			got = append(got, fmt.Sprintf("%s/%d", s.Header.Get(crumbs.DeadSequence), bytes))
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for want, got := range map[string][]string{
		"[1/0 2/1 3/2 4/3 5/4 6/5 7/6]": list(crumbs.DeadFilter("", ""), 0, ids[6]+1),
		"[3/2 5/4]":                     list(crumbs.DeadFilter("", "run_0"), ids[1], ids[6]),
		"[]":                            list(crumbs.DeadFilter(crumbs.StreamInbox, ""), 0, ids[6]),
	} {
		if fmt.Sprint(got) != want {
			t.Errorf("listed %v, want %s", got, want)
		}
	}
}
