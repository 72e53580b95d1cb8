package perm_test

import (
	"slices"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/perm"
)

// Deny beats allow and ask in whatever order the rules stand, and a star in the
// middle of a name matches what lies between its ends.
func TestPolicy_F005_DenyBeatsAllowInAnyOrder(t *testing.T) {
	t.Parallel()
	allow, deny := []string{"tool:*", "tool:get_user_by_id", "tool:get_*"}, []string{"tool:get_*_by_id", "tool:drop_*"}
	for range 2 {
		p, err := perm.Compile(perm.Lists{Allow: allow, Ask: allow[:1], Deny: deny})
		if err != nil {
			t.Fatal(err)
		}
		for name, permitted := range map[string]bool{"get_user_by_id": false, "get__by_id": false, "get_user_by_name": true, "drop_all": false} {
			if got := p.Decide(perm.Origin{Scope: perm.Tool, Name: name}).Permitted(); got != permitted {
				t.Errorf("tool:%s permitted %v, want %v", name, got, permitted)
			}
		}
		slices.Reverse(allow)
		slices.Reverse(deny)
	}
}
