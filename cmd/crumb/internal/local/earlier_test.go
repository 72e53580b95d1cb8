package local

import (
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
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
}

// A project of any size keeps all of what it was before; what is bounded is how many
// versions back that goes.
func TestEarlier_Bounded(t *testing.T) {
	t.Parallel()
	e, forgotten := earlier{}, 0
	const tools = worker.ToolsMax
	all := func(version string) *agent.Project {
		wide := map[string]string{}
		for i := range tools {
			wide["x"+strconv.Itoa(i)] = version
		}
		return project(wide)
	}
	for _, version := range []string{"one", "two", "three"} {
		forgotten += e.add(all(version))
	}
	if got := e.of("scripts", all("three")); len(got) != 2*tools || got[0].Announcement.Description != "two" || forgotten != 0 {
		t.Errorf("%d versions, the newest %q, %d forgotten", len(got), got[0].Announcement.Description, forgotten)
	}
	forgotten = e.add(all("four"))
	got := e.of("scripts", all("four"))
	if len(got) != worker.EarlierMax || got[0].Announcement.Description != "three" || forgotten != 3*tools-worker.EarlierMax {
		t.Errorf("%d versions, the newest %q, %d forgotten", len(got), got[0].Announcement.Description, forgotten)
	}
}

// What is read is what was written; a file of something else is told, with what it costs
// to do without.
func TestEarlier_OfTheStore(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	e, p := earlier{}, project(map[string]string{"x": "one"})
	e.add(p)
	if err := e.write(store); err != nil {
		t.Fatal(err)
	}
	read, err := readEarlier(store)
	if err != nil || !reflect.DeepEqual(versions(read["scripts"]), versions(p.ExecTools())) {
		t.Errorf("%+v, %v", read, err)
	}
	file := filepath.Join(store, earlierFile)
	if err := os.WriteFile(file, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readEarlier(store); fault.CodeOf(err) != fault.InvalidConfig || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
}
