package fleet

import (
	"context"
	"encoding/json"
	"fmt"
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

// Messages reads what a limits stream holds on a filter, in its order. It reads
// again when the stream has no leader right now.
func (f *Fleet) Messages(stream, filter string) (all []jetstream.Msg) {
	f.t.Helper()
	f.Until(stream+" is read", func() bool {
		var err error
		if all, err = f.messages(stream, filter); err != nil {
			f.Mesh.Conn.Log.Debug("read", "stream", stream, "error", err)
		}
		return err == nil
	})
	return all
}

func (f *Fleet) messages(stream, filter string) ([]jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readWait)
	defer cancel()
	cons, err := f.Mesh.Conn.JS.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{filter}})
	if err != nil {
		return nil, err
	}
	info, err := cons.Info(ctx)
	if err != nil {
		return nil, err
	}
	if info.NumPending == 0 {
		return nil, nil
	}
	batch, err := cons.Fetch(int(info.NumPending), jetstream.FetchMaxWait(readWait))
	if err != nil {
		return nil, err
	}
	var out []jetstream.Msg
	for m := range batch.Messages() {
		out = append(out, m)
	}
	if uint64(len(out)) < info.NumPending {
		return nil, fmt.Errorf("%d of %d messages: %w", len(out), info.NumPending, batch.Error())
	}
	return out, nil
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
