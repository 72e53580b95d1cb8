package crumbs_test

import (
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

func TestCheckForeignSubject_NothingOfTheMesh(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"hook.audit", "ops.notify", "a", "my-svc.v1.check", "tools.x"} {
		if err := crumbs.CheckForeignSubject(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	own := []string{crumbs.ToolCallSubject("g", "run_1"), crumbs.RequestSubject("a"), crumbs.ControlSubject("run_1"), crumbs.EndpointRunsStart,
		crumbs.BlobSubject(crumbs.AreaCore, "run_1", "x", 0), crumbs.CancelSubject("run_1"), "crumb.a.run_1.step.end", "delta.a.run_1.text",
		"model.call.p.run_1", "timer.set.run_1.1", "dead.X.run_1.1", "approval.decision.run_1.x"}
	for _, s := range append(own, "", "$JS.API.INFO", "_INBOX.x", "hook.>", "hook.*.x", "hook..x", ".hook", "hook.", "a b", strings.Repeat("x", 257)) {
		if err := crumbs.CheckForeignSubject(s); fault.CodeOf(err) != fault.InvalidConfig {
			t.Errorf("%q: %v", s, err)
		}
	}
}
