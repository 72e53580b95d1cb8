package mesh_test

import (
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

// A bucket is deleted under a role that may not look at streams: a look names it, also
// when it may be read through the leader only, and the next look finds it again.
func TestStanding_OfARoleThatMayNotLook(t *testing.T) {
	t.Parallel()
	m := meshtest.StartGuarded(t, []string{"demo"}, []string{"script"})
	definitions := mesh.NeedBucket(crumbs.BucketAgents, ">")
	definitions.Leader = true
	for name, c := range map[string]struct {
		role string
		need mesh.Need
		says string
	}{
		"read from any replica": {access.ToolsRole("demo"), mesh.NeedBucket(crumbs.BucketClaims, crumbs.ToolKeys("demo")+">"), "stream KV_claims (or every server that has it): missing; run `crumb init`"},
		"read from the leader":  {access.RoleModels, definitions, "stream KV_agents: missing; run `crumb init`"},
	} {
		conn := m.ConnectAs(c.role)
		s := conn.Standing([]mesh.Need{c.need}, nil)
		look := func(want string) {
			t.Helper()
			s.Look(t.Context())
			err := s.Health()
			if want == "" && err != nil || want != "" && (fault.CodeOf(err) != fault.TopologyMissing || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
		look("")
		if err := m.Conn.JS.DeleteStream(t.Context(), c.need.Stream); err != nil {
			t.Fatal(err)
		}
		look(c.says)
		if err := m.ConnectAs(access.RoleProvisioner).Ensure(t.Context(), mesh.Topology{}); err != nil {
			t.Fatal(err)
		}
		look("")
		if conn.Violations() != 0 {
			t.Errorf("%s: %v", name, conn.Health())
		}
	}
}

// NATS answers and there is no mesh: who starts a service learns that it may be looking
// at the wrong place.
func TestVerify_NothingIsSeen(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	needs := []mesh.Need{{Stream: crumbs.StreamInbox, Filter: "tool.result.demo.*.*"}, mesh.NeedBucket(crumbs.BucketClaims, ">")}
	if err := m.Conn.Verify(t.Context(), needs, nil); err != nil {
		t.Fatal(err)
	}
	missing := func(want string) {
		t.Helper()
		err := m.Conn.Verify(t.Context(), needs, nil)
		if fault.CodeOf(err) != fault.TopologyMissing || !strings.Contains(err.Error(), "run `crumb init`") || strings.Contains(err.Error(), "--js-api-prefix") != (want != "") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, n := range needs {
		if err := m.Conn.JS.DeleteStream(t.Context(), n.Stream); err != nil {
			t.Fatal(err)
		}
		if n.Stream == crumbs.StreamInbox {
			missing("")
		}
	}
	missing("sees nothing of a mesh in its account")
}
