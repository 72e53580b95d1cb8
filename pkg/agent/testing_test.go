package agent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// unpack writes the files of an archive into a fresh folder.
func unpack(t testing.TB, archive string) string {
	t.Helper()
	a, err := txtar.ParseFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, a.Files)
}

func write(t testing.TB, files []txtar.File) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// appendTo writes text behind what a file has.
func appendTo(t testing.TB, file, text string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// leafPaths are the paths of all scalars of a JSON document.
func leafPaths(t testing.TB, text []byte) [][]any {
	t.Helper()
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	var out [][]any
	var walk func(v any, path []any)
	walk = func(v any, path []any) {
		switch v := v.(type) {
		case map[string]any:
			for k, item := range v {
				walk(item, append(slices.Clip(path), k))
			}
		case []any:
			for i, item := range v {
				walk(item, append(slices.Clip(path), i))
			}
		default:
			out = append(out, path)
		}
	}
	walk(tree, nil)
	return out
}

// changed is the document with the scalar at path changed to another of its kind.
func changed(t testing.TB, text []byte, path []any) []byte {
	t.Helper()
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	set := func(v any) any {
		switch v := v.(type) {
		case string:
			return v + "x"
		case float64:
			return v + 1
		case bool:
			return !v
		}
		return "x"
	}
	at := tree
	for i, step := range path {
		last := i == len(path)-1
		switch k := step.(type) {
		case string:
			m := at.(map[string]any)
			if at = m[k]; last {
				m[k] = set(at)
			}
		case int:
			l := at.([]any)
			if at = l[k]; last {
				l[k] = set(at)
			}
		}
	}
	out, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
