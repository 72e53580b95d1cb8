package readme_test

import (
	"path/filepath"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
)

// The example of docs/hooks.md, docs/tools.md and docs/agents.md loads without a word.
func TestDesk_Loads(t *testing.T) {
	t.Parallel()
	p, err := agent.Load(filepath.Join(root, "examples", "desk"))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Agents) != 3 || len(p.Warnings) > 0 {
		t.Errorf("%d agents, warnings %q", len(p.Agents), p.Warnings)
	}
}
