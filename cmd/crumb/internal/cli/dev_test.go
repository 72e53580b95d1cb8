package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/terminal"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// Edits apply as they are saved, but for what a command runs: `crumb dev` says so
// for each group that has one.
func TestDev_AnnouncesWhatIsNotWatched(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	inv := &invocation{ctx: t.Context(), globals: &globals{}, std: terminal.Stdio{Out: &stderr, Err: &stderr, Env: func(string) (string, bool) { return "", false }}}
	project := &agent.Project{Groups: map[string]agent.Group{"b": {Command: []string{"go", "run", "./cmd/worker"}}, "a": {Command: []string{"node", "w.js"}}, "none": {}}}
	if err := (devCommand{Port: defaultPort}).announce(inv, served{}, crumbs.AgentsApplyReply{}, project); err != nil {
		t.Fatal(err)
	}
	want := "worker  [a] node w.js   (its sources are not watched: restart crumb dev when they change)\n" +
		"worker  [b] go run ./cmd/worker   (its sources are not watched: restart crumb dev when they change)\n"
	if !strings.Contains(stderr.String(), want) || strings.Contains(stderr.String(), "[none]") {
		t.Errorf("%s\nhas no\n%s", stderr.String(), want)
	}
}
