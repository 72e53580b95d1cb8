package reload_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/reload"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func expectChange(t *testing.T, changes <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-changes:
	case <-time.After(patience):
		t.Fatalf("%s: no change told", what)
	}
}

func TestChanges_TellsOfProjectFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "agents", "a", "agent.yaml"), "")
	changes, err := reload.Changes(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "agents", "a", "agent.yaml"), "model: {}")
	expectChange(t, changes, "an agent's file")
	write(t, filepath.Join(dir, "crumb.yaml"), "agents: []")
	expectChange(t, changes, "crumb.yaml")

	// A new folder is watched: its own files count after it was told of.
	write(t, filepath.Join(dir, "agents", "b", "agent.yaml"), "")
	expectChange(t, changes, "a new agent")
	write(t, filepath.Join(dir, "agents", "b", "agent.yaml"), "model: {}")
	expectChange(t, changes, "the new agent's file")
}

func TestChanges_OtherFilesDoNotCount(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "agents", "a", "agent.yaml"), "")
	changes, err := reload.Changes(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "published.md"), "text")
	write(t, filepath.Join(dir, ".crumbmesh", "x"), "text")
	write(t, filepath.Join(dir, "agents", "a", ".agent.yaml.swp"), "text")
	select {
	case <-changes:
		t.Error("told of a file that is not the project's")
	case <-time.After(3 * reload.Debounce):
	}
}

func TestChanges_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	changes, err := reload.Changes(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case _, open := <-changes:
		if open {
			t.Error("a change of an untouched folder")
		}
	case <-time.After(patience):
		t.Error("not closed")
	}
}

func TestChanges_RefusesAFolderThatIsNotThere(t *testing.T) {
	t.Parallel()
	_, err := reload.Changes(t.Context(), filepath.Join(t.TempDir(), "none"))
	if fault.CodeOf(err) != fault.InvalidConfig {
		t.Errorf("%v, expected INVALID_CONFIG", err)
	}
}

// Most editors write another file and rename it into place.
func TestChanges_RenamedIntoPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "crumb.yaml"), "")
	write(t, filepath.Join(dir, "agents", "a", "agent.yaml"), "")
	changes, err := reload.Changes(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"crumb.yaml", "agents/a/agent.yaml", "crumb.yaml"} {
		draft := filepath.Join(t.TempDir(), "draft")
		write(t, draft, "agents: []")
		if err := os.Rename(draft, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		expectChange(t, changes, name)
	}
	if err := os.RemoveAll(filepath.Join(dir, "agents")); err != nil {
		t.Fatal(err)
	}
	expectChange(t, changes, "all agents deleted")
	write(t, filepath.Join(dir, "agents", "b", "agent.yaml"), "")
	expectChange(t, changes, "a first agent again")
	write(t, filepath.Join(dir, "agents", "b", "agent.yaml"), "model: {}")
	expectChange(t, changes, "its file")
}

// A burst that nobody took yet is one change.
func TestChanges_ABurstIsOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "agents", "a", "agent.yaml"), "")
	changes, err := reload.Changes(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		write(t, filepath.Join(dir, "agents", "a", "agent.yaml"), "steps: {max: "+strconv.Itoa(i+1)+"}")
	}
	expectChange(t, changes, "the burst")
	told := 0
	for range 2 { // what a slow machine wrote after a pause
		select {
		case <-changes:
			told++
		case <-time.After(2 * reload.Debounce):
		}
	}
	if told > 1 {
		t.Errorf("%d changes more", told)
	}
}

func TestPaths_FoldersFilesAndPatterns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"src/deep/a.go", "go.mod", "lib/a.go", "lib/a.txt", "other/a.go"} {
		write(t, filepath.Join(dir, name), "")
	}
	changes, err := reload.Paths(t.Context(), dir, "src", "go.mod", "lib/*.go", "later/x")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"src/deep/a.go", "src/new/b.go", "src/new/b.go", "go.mod", "lib/a.go", "lib/b.go", "later/x/y.go", "later/x/y.go"} {
		write(t, filepath.Join(dir, name), "changed "+name)
		expectChange(t, changes, name)
	}
	for _, name := range []string{"lib/a.txt", "other/a.go", "go.sum", "src/.hidden", "src/a.go~", "src/#a.go#"} {
		write(t, filepath.Join(dir, name), "changed")
	}
	select {
	case <-changes:
		t.Error("told of a file that is none of them")
	case <-time.After(3 * reload.Debounce):
	}
}
