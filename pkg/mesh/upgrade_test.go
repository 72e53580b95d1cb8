package mesh_test

import (
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// Streams as earlier releases made them are brought up to date: NATS takes message
// TTLs back from none, and changes the storage of none.
func TestEnsure_StreamsOfEarlierReleases(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	js := m.Conn.JS
	for _, name := range []string{"KV_" + crumbs.BucketAgents, "KV_" + crumbs.BucketTools, "KV_" + crumbs.BucketClaims, "KV_" + crumbs.BucketWorkers} {
		s, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		cfg := s.CachedInfo().Config
		cfg.AllowMsgTTL, cfg.SubjectDeleteMarkerTTL, cfg.AllowRollup = true, time.Minute, true
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Conn.Bucket(crumbs.BucketAgents).Put(t.Context(), "kept", []byte("1")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.Conn.Ensure(t.Context(), mesh.Topology{}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := js.Stream(t.Context(), "KV_"+crumbs.BucketAgents)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.CachedInfo().Config; got.SubjectDeleteMarkerTTL != 0 || got.AllowRollup {
		t.Errorf("markers %s, rollup %v: one writer could wipe what the others wrote", got.SubjectDeleteMarkerTTL, got.AllowRollup)
	}
	if r, err := m.Conn.Bucket(crumbs.BucketAgents).Get(t.Context(), "kept"); err != nil || !r.Exists() {
		t.Errorf("what was stored before: %v, %v", r, err)
	}
}
