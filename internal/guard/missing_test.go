package guard_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
	"github.com/crumbmesh/crumbmesh/services/approvals"
	"github.com/crumbmesh/crumbmesh/services/modelgw"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// Everybody says which stream or bucket is missing that it cannot start without, also
// who may not look at streams, and asks for nothing that NATS refuses.
func TestGuarded_EveryRoleSeesWhatIsMissing(t *testing.T) {
	t.Parallel()
	m := meshtest.StartGuarded(t, []string{payments}, []string{"script"})
	start := map[string]func(context.Context, *mesh.Conn) error{
		access.RoleOrchestrator: func(ctx context.Context, c *mesh.Conn) error {
			return orchestrator.Run(ctx, orchestrator.Config{Verify: func(crumbs.Decision) error { return nil }}, c)
		},
		access.RoleModels: func(ctx context.Context, c *mesh.Conn) error { return modelgw.Run(ctx, modelgw.Config{}, c) },
		access.RoleApprovals: func(ctx context.Context, c *mesh.Conn) error {
			return approvals.Run(ctx, approvals.Config{Key: decision.NewKey()}, c)
		},
		access.ToolsRole(payments): func(ctx context.Context, c *mesh.Conn) error {
			return worker.Run(ctx, worker.Config{Group: payments}, c, tool.Define("pay", "Pay.", func(_ tool.Context, in textIn) (string, error) { return in.Text, nil }))
		},
	}
	conns := map[string]*mesh.Conn{}
	for role := range start {
		conns[role] = m.ConnectAs(role)
	}
	provisioner := m.ConnectAs(access.RoleProvisioner)
	worker := []string{access.RoleModels, access.ToolsRole(payments)}
	for stream, by := range map[string][]string{
		crumbs.StreamBlobs:             {access.RoleOrchestrator, access.RoleApprovals, worker[0], worker[1]},
		crumbs.StreamDead:              {access.RoleOrchestrator, access.RoleApprovals, worker[0], worker[1]},
		crumbs.StreamInbox:             {access.RoleApprovals, worker[0], worker[1]},
		"KV_" + crumbs.BucketClaims:    {access.RoleOrchestrator, worker[0], worker[1]},
		"KV_" + crumbs.BucketWorkers:   {access.RoleOrchestrator, worker[0], worker[1]},
		"KV_" + crumbs.BucketTools:     {access.RoleOrchestrator, worker[1]},
		"KV_" + crumbs.BucketAgents:    {access.RoleOrchestrator, worker[0]},
		"KV_" + crumbs.BucketApprovals: {access.RoleApprovals},
	} {
		if err := m.Conn.JS.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
		for _, role := range by {
			err := start[role](t.Context(), conns[role])
			if fault.CodeOf(err) != fault.TopologyMissing || !strings.Contains(err.Error(), "stream "+stream+" is missing; run `crumb init`") {
				t.Errorf("%s without %s: %v", role, stream, err)
			}
		}
		if err := provisioner.Ensure(t.Context(), mesh.Topology{Groups: map[string]int{payments: 0}, Providers: map[string]int{"script": 0}}); err != nil {
			t.Fatal(err)
		}
	}
	for role, c := range conns {
		if n := c.Violations(); n != 0 {
			t.Errorf("NATS refused %s %d operations: %v", role, n, c.Health())
		}
	}
}

// Who has the key of a role and not its prefixes, or no key where there are accounts,
// is told where the mesh may be.
func TestGuarded_WhoLooksElsewhereIsTold(t *testing.T) {
	t.Parallel()
	m := meshtest.StartGuarded(t, []string{payments}, []string{"script"})
	for name, c := range map[string]struct {
		role   string
		prefix string
		code   fault.Code
		words  []string
	}{
		"no prefix":      {access.RoleModels, "", fault.PermissionsViolation, []string{"--js-api-prefix", "--config DIR/ROLE.yaml", "$JS.API.STREAM.INFO.INBOX"}},
		"another prefix": {access.RoleModels, "OTHER", fault.PermissionsViolation, []string{"--config DIR/ROLE.yaml", "OTHER.DIRECT.GET.INBOX"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := m.Guard.Access(c.role)
			a.APIPrefix = c.prefix
			conn, err := mesh.Connect(t.Context(), mesh.ConnectConfig{InProcess: m.Door(), Access: a})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			err = modelgw.Run(t.Context(), modelgw.Config{}, conn)
			if fault.CodeOf(err) != c.code || slices.ContainsFunc(c.words, func(w string) bool { return !strings.Contains(err.Error(), w) }) {
				t.Errorf("got %v, want %s with %q", err, c.code, c.words)
			}
		})
	}
}
