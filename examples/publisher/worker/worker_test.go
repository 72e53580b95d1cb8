package worker_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/examples/publisher/worker"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

func tools(t *testing.T, f worker.Folder) map[string]tool.Tool {
	t.Helper()
	byName := map[string]tool.Tool{}
	for _, one := range f.Tools() {
		if err := one.Err(); err != nil {
			t.Fatal(err)
		}
		byName[one.Name()] = one
	}
	return byName
}

func write(t *testing.T, folder, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, documents, path string) (worker.Document, error) {
	t.Helper()
	args, err := json.Marshal(worker.Selection{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := tools(t, worker.Folder{Documents: documents})["read_document"].Run(tool.Context{Context: context.Background()}, args, nil)
	if err != nil {
		return worker.Document{}, err
	}
	var d worker.Document
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	return d, nil
}

// What may run again is pure, what must not is once.
func TestTools_Effects(t *testing.T) {
	t.Parallel()
	all := tools(t, worker.Folder{})
	if e := all["read_document"].Effect(); e != crumbs.EffectPure {
		t.Errorf("read_document: %s, expected pure", e)
	}
	if e := all["publish"].Effect(); e != crumbs.EffectOnce {
		t.Errorf("publish: %s, expected once", e)
	}
}

func TestReadDocument_TitleIsTheFirstHeadingElseTheName(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, folder, "a.md", "intro\n# The title \ntext\n# Another\n")
	write(t, folder, "plain.md", "no heading")
	for path, want := range map[string]string{"a.md": "The title", "plain.md": "plain"} {
		d, err := read(t, folder, path)
		if err != nil || d.Title != want || d.Truncated {
			t.Errorf("%s: %+v, %v; expected the title %q", path, d, err, want)
		}
	}
}

func TestReadDocument_CutsALongTextAtARune(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, folder, "long.md", "x"+strings.Repeat("é", 20_000))
	d, err := read(t, folder, "long.md")
	if err != nil {
		t.Fatal(err)
	}
	if !d.Truncated || len(d.Text) > 32<<10 || !strings.HasSuffix(d.Text, "é") {
		t.Errorf("truncated %v, %d bytes", d.Truncated, len(d.Text))
	}
}

// No path and no link leads out of the folder, and no message names it.
func TestReadDocument_StaysInItsFolder(t *testing.T) {
	t.Parallel()
	outer := t.TempDir()
	folder := filepath.Join(outer, "documents")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, outer, "secret.md", "secret")
	if err := os.Symlink(filepath.Join(outer, "secret.md"), filepath.Join(folder, "link.md")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"../secret.md", filepath.Join(outer, "secret.md"), "link.md", "missing.md"} {
		d, err := read(t, folder, path)
		if fault.CodeOf(err) != fault.ToolError {
			t.Errorf("%s: %+v, %v; expected TOOL_ERROR", path, d, err)
		} else if strings.Contains(err.Error(), outer) {
			t.Errorf("%s: the message names the folder: %v", path, err)
		}
	}
}

func TestPublish_WritesOneFileThatNamesTheCall(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, folder, worker.PublishedFile, "an older one that is much longer than the new one will be, so that a leftover shows")
	ctx := tool.Context{Context: context.Background(), CallID: "run_1.2.1"}
	result, err := tools(t, worker.Folder{Published: folder})["publish"].Run(ctx, json.RawMessage(`{"title":"The\n title"}`), nil)
	if err != nil || string(result) != `{"file":"published.md"}` {
		t.Fatalf("%s, %v", result, err)
	}
	text, err := os.ReadFile(filepath.Join(folder, worker.PublishedFile))
	if err != nil || string(text) != "# The title\n\nPublished by the call run_1.2.1.\n" {
		t.Errorf("%q, %v", text, err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 1 {
		t.Errorf("left in the folder: %v, %v", entries, err)
	}
}

func TestPublish_RefusesAnEmptyTitle(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	_, err := tools(t, worker.Folder{Published: folder})["publish"].Run(tool.Context{}, json.RawMessage(`{"title":""}`), nil)
	if fault.CodeOf(err) != fault.InvalidArguments {
		t.Errorf("%v, expected INVALID_ARGUMENTS", err)
	}
	if entries, _ := os.ReadDir(folder); len(entries) != 0 {
		t.Errorf("something was written: %v", entries)
	}
}
