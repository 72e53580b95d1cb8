package mesh_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// cutOff answers as the leader of a stream that lost its peers: for a while every
// write is in flight, and none is stored.
type cutOff struct {
	jetstream.JetStream
	refusals atomic.Int64
}

func (c *cutOff) PublishMsg(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if c.refusals.Add(-1) >= 0 {
		return nil, &jetstream.APIError{Code: 400, ErrorCode: 10164, Description: "wrong last sequence"}
	}
	return c.JetStream.PublishMsg(ctx, m, opts...)
}

// What is only in flight may be lost with its leader: it is neither a conflict nor
// the message that is waited for.
func TestPublish_InFlightIsNotStored(t *testing.T) {
	t.Parallel()
	const subject = "tool.result.g.run_1.run_1-1-0-1"
	for name, refusals := range map[string]int64{"for a moment": 3, "until another leads": 500} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			meshtest.Bubble(t, func(t *testing.T, m *meshtest.Mesh) {
				c := m.Connect("worker")
				leader := &cutOff{JetStream: c.JS}
				c.JS = leader
				leader.refusals.Store(refusals)
				if err := c.PublishOnce(t.Context(), &nats.Msg{Subject: subject, Data: []byte(`{}`)}); err != nil {
					t.Fatal(err)
				}
				if got, err := m.Conn.Last(t.Context(), crumbs.StreamInbox, subject); err != nil || got == nil {
					t.Errorf("taken for stored, and it is not: %v %v", got, err)
				}
				if err := c.PublishOnce(t.Context(), &nats.Msg{Subject: subject, Data: []byte(`{}`)}); err != nil {
					t.Errorf("one that is stored is success: %v", err)
				}
			})
		})
	}
}

func TestSet_InFlightIsUnavailable(t *testing.T) {
	t.Parallel()
	meshtest.Bubble(t, func(t *testing.T, m *meshtest.Mesh) {
		c := m.Connect("orchestrator")
		leader := &cutOff{JetStream: c.JS}
		c.JS = leader
		leader.refusals.Store(1 << 40)
		_, err := c.Bucket(crumbs.BucketRuns).Set(t.Context(), mesh.Write{Key: "run_1", Value: []byte(`{}`)})
		if errors.Is(err, mesh.ErrConflict) || fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("got %v, want UNAVAILABLE: nobody knows whether another wrote", err)
		}
		leader.refusals.Store(0)
		if _, err := c.Bucket(crumbs.BucketRuns).Set(t.Context(), mesh.Write{Key: "run_1", Value: []byte(`{}`)}); err != nil {
			t.Error(err)
		}
		if _, err := c.Bucket(crumbs.BucketRuns).Set(t.Context(), mesh.Write{Key: "run_1", Value: []byte(`{}`)}); !errors.Is(err, mesh.ErrConflict) {
			t.Errorf("got %v, want a conflict", err)
		}
	})
}
