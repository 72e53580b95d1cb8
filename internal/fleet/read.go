package fleet

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

const readWait = 10 * time.Second

// Stored is a crumb as it stands on the stream.
type Stored struct {
	Sequence   uint64 // of the stream
	CESequence string // header ce-sequence
	Base       crumbs.Base
	Body       json.RawMessage
}

// Crumbs reads the crumbs of a run raw from the stream, in stream order.
func (f *Fleet) Crumbs(run crumbs.RunID) []Stored {
	f.t.Helper()
	return f.read(crumbs.RunCrumbsFilter(run))
}

// AllCrumbs reads every crumb.
func (f *Fleet) AllCrumbs() []Stored {
	f.t.Helper()
	return f.read(crumbs.SubjectCrumbs)
}

// read returns all messages of CRUMBS on a filter: the raw truth, past every
// reader of ours.
func (f *Fleet) read(filter string) []Stored {
	f.t.Helper()
	var out []Stored
	for _, m := range f.Messages(crumbs.StreamCrumbs, filter) {
		s := Stored{CESequence: m.Headers().Get("ce-sequence"), Body: m.Data()}
		meta, err := m.Metadata()
		if err != nil {
			f.t.Fatal(err)
		}
		s.Sequence = meta.Sequence.Stream
		if err := json.Unmarshal(m.Data(), &s.Base); err != nil {
			f.t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

// Messages reads what a limits stream holds on a filter, in its order.
func (f *Fleet) Messages(stream, filter string) []jetstream.Msg {
	f.t.Helper()
	ctx := context.Background()
	cons, err := f.Mesh.Conn.JS.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{filter}})
	if err != nil {
		f.t.Fatal(err)
	}
	info, err := cons.Info(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	var out []jetstream.Msg
	for n := info.NumPending; n > 0; n-- {
		m, err := cons.Next(jetstream.FetchMaxWait(readWait))
		if err != nil {
			f.t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

// Stream tells how many messages a stream holds and how many it ever took.
func (f *Fleet) Stream(name string) (held, taken uint64) {
	f.t.Helper()
	s, err := f.Mesh.Conn.JS.Stream(context.Background(), name)
	if err != nil {
		f.t.Fatal(err)
	}
	state := s.CachedInfo().State
	return state.Msgs, state.LastSeq
}
