package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// What doctor and explain advise can be copied from the terminal and reaches the same
// mesh; in a document the commands are plain.
func TestAdvice_IsCompletedInTextAndPlainInJSON(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, meshtest.WithListener(), meshtest.WithTopology([]string{"demo"}, []string{"script"}))
	flags := []string{"--server", m.Server.URL()}
	x := crumbs.RunExplained{Run: crumbs.RunView{RunID: "run_1", AgentID: "a"}, Advice: "group g has no queue: `crumb init --group g`", Command: "crumb init --group g"}
	for name, c := range map[string]struct {
		args  []string
		print func(*invocation) error
		plain string // a command that is advised
	}{
		"doctor":  {[]string{"doctor"}, func(i *invocation) error { return doctorCommand{}.Run(i) }, "orchestrator"},
		"explain": {[]string{"explain", "run_1"}, func(i *invocation) error { return i.explained(x) }, "init --group g"},
	} {
		for _, json := range []bool{false, true} {
			args, want := append(c.args, flags...), "crumb --server "+m.Server.URL()+" "+c.plain
			if json {
				args, want = append(args, "--json"), `"command":"crumb `+c.plain+`"`
			}
			var out bytes.Buffer
			i := invoked(t, nil, args...)
			i.ctx, i.std.Out, i.std.Err = t.Context(), &out, &out
			if err := c.print(i); err != nil && err != error(ended(statusFailed)) {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), want) || json && strings.Contains(out.String(), "crumb --server") {
				t.Errorf("%s, json %t: want %q in\n%s", name, json, want, out.String())
			}
		}
	}
}
