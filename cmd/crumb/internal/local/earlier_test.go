package local

import (
	"strconv"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
)

// project has one agent with a tool for each description.
func project(tools map[string]string) *agent.Project {
	d := &agent.Definition{ID: "a"}
	for name, description := range tools {
		d.Tools = append(d.Tools, agent.Tool{Name: name, Description: description, Exec: &agent.Exec{Argv: []string{"sh"}, Group: "scripts", Handler: "a/" + name}})
	}
	return &agent.Project{Dir: "/p", Agents: []*agent.Definition{d}}
}

func TestEarlier_KeepsWhatIsNoMore(t *testing.T) {
	t.Parallel()
	e := earlier{}
	one, two := project(map[string]string{"x": "one", "y": "same"}), project(map[string]string{"x": "two", "y": "same"})
	e.add(one)
	if got := e.of("scripts", one); len(got) != 0 {
		t.Errorf("what serves counts as earlier: %+v", got)
	}
	if got := e.of("scripts", two); len(got) != 1 || got[0].Announcement.Description != "one" {
		t.Errorf("after an edit: %+v", got)
	}
	e.add(two)
	if got := e.of("scripts", one); len(got) != 1 || got[0].Announcement.Description != "two" {
		t.Errorf("after the edit was taken back: %+v", got)
	}
	if got := e.of("scripts", project(nil)); len(got) != 3 {
		t.Errorf("after all tools were deleted: %+v", got)
	}
	for i := range 2 * earlierMax {
		e.add(project(map[string]string{"x": "version " + strconv.Itoa(i)}))
	}
	got := e.of("scripts", project(nil))
	if len(got) != earlierMax || got[0].Announcement.Description != "version "+strconv.Itoa(2*earlierMax-1) {
		t.Errorf("%d versions, the newest %q", len(got), got[0].Announcement.Description)
	}
}
