package perm

import (
	"maps"
	"slices"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Collisions returns TOOL_NAME_COLLISION when two of the permitted tools have
// one leaf, naming both (context: leaf, origins). Pass permitted tools only: a
// denied duplicate does not collide. Of several collisions the one whose leaf
// sorts first is told, whatever the order of permitted. An origin without a leaf
// is INVALID_NAME.
func Collisions(permitted []Origin) error {
	owners := make(map[string][]string, len(permitted))
	for _, o := range permitted {
		leaf, err := Leaf(o)
		if err != nil {
			return err
		}
		owners[leaf] = append(owners[leaf], o.id())
	}
	for _, leaf := range slices.Sorted(maps.Keys(owners)) {
		ids := owners[leaf]
		if len(ids) < 2 {
			continue
		}
		slices.Sort(ids)
		return fault.New(fault.ToolNameCollision, "%s and %s would both be %q to the model: rename one or deny one", ids[0], ids[1], leaf).
			With("leaf", leaf).With("origins", ids[:2])
	}
	return nil
}
