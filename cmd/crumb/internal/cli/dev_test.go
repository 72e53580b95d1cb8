package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/terminal"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// What a command is made of is watched where crumb.yaml says what that is: `crumb
// dev` says it of each group that has a command.
func TestDev_AnnouncesWhatIsWatched(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	inv := &invocation{ctx: t.Context(), globals: &globals{}, std: terminal.Stdio{Out: &stderr, Err: &stderr, Env: func(string) (string, bool) { return "", false }}}
	project := &agent.Project{Groups: map[string]agent.Group{"b": {Command: []string{"go", "run", "./cmd/worker"}}, "a": {Command: []string{"node", "w.js"}, Watch: []string{"w.js", "lib"}}, "none": {}}}
	if err := (devCommand{Port: defaultPort}).announce(inv, served{}, crumbs.AgentsApplyReply{}, project); err != nil {
		t.Fatal(err)
	}
	want := "worker  [a] node w.js   (starts anew when w.js, lib change)\n" +
		"worker  [b] go run ./cmd/worker   (its sources are not watched: name them in groups.b.watch of crumb.yaml)\n"
	if !strings.Contains(stderr.String(), want) || strings.Contains(stderr.String(), "[none]") {
		t.Errorf("%s\nhas no\n%s", stderr.String(), want)
	}
}
