package agent_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
)

// `approval: {hooks: before}` that has no effect is told: without a hook before the
// question, and without a question.
func TestLoad_HooksBeforeAnApproval(t *testing.T) {
	t.Parallel()
	const (
		file    = "agents/a/tools/pay.yaml:3:19: "
		noHook  = file + "the tool has no beforeRun hook, and neither have the plugins and hooks of crumb.yaml: this has no effect"
		nobody  = file + "nobody is asked before the tool runs, since permissions.ask of agent.yaml does not rule it: this has no effect"
		own     = "hooks: {beforeRun: {exec: [check]}}\n"
		after   = "hooks: {afterRun: {exec: [check]}}\n"
		asked   = "permissions: {ask: [\"tool:p*\"]}\n"
		refused = "permissions: {ask: [\"tool:pay\"], deny: [\"tool:*\"]}\n"
	)
	for name, c := range map[string]struct {
		project, agent, tool string
		want                 []string
	}{
		"neither":              {"", "", "", []string{noHook, nobody}},
		"asked, no hook":       {"", asked, after, []string{noHook}},
		"a hook, not asked":    {"", "", own, []string{nobody}},
		"a hook, denied":       {"", refused, own, []string{nobody}},
		"asked, with a hook":   {"", asked, own, nil},
		"a hook of a plugin":   {"plugins: [{name: audit, hooks: {beforeRun: {exec: [check]}}}]\n", asked, "", nil},
		"one of the project":   {own, asked, "", nil},
		"an agent's is no one": {"", asked + own, "", []string{noHook}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for path, text := range map[string]string{
				"crumb.yaml":              "agents: [a]\n" + c.project,
				"agents/a/agent.yaml":     "model: {provider: script, model: m}\n" + c.agent,
				"agents/a/scripts/m.yaml": "turns: [{text: hello}]\n",
				"agents/a/tools/pay.yaml": "description: Pays.\nexec: [cat]\napproval: {hooks: before}\n" + c.tool,
			} {
				path = filepath.Join(dir, filepath.FromSlash(path))
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p, err := agent.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(p.Warnings, c.want) {
				t.Errorf("got  %q\nwant %q", p.Warnings, c.want)
			}
		})
	}
}
