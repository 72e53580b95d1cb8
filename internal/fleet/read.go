package fleet

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// Waiting bounds: of real time outside a bubble, of virtual time inside one.
const (
	waitPoll  = 20 * time.Millisecond
	waitPolls = 3000
	readWait  = 5 * time.Second
)

// read returns all messages of CRUMBS on a filter: the raw truth, past every
// reader of ours.
func (f *Fleet) read(filter string) []Stored {
	f.t.Helper()
	ctx := context.Background()
	cons, err := f.Mesh.Conn.JS.OrderedConsumer(ctx, crumbs.StreamCrumbs, jetstream.OrderedConsumerConfig{FilterSubjects: []string{filter}})
	if err != nil {
		f.t.Fatal(err)
	}
	info, err := cons.Info(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	var out []Stored
	for n := info.NumPending; n > 0; n-- {
		m, err := cons.Next(jetstream.FetchMaxWait(readWait))
		if err != nil {
			f.t.Fatal(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			f.t.Fatal(err)
		}
		s := Stored{Sequence: meta.Sequence.Stream, Body: m.Data()}
		if err := json.Unmarshal(m.Data(), &s.Base); err != nil {
			f.t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}
