package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// store stores a file as a tool does and returns its URI.
func store(t *testing.T, url, content string) string {
	t.Helper()
	conn, err := mesh.Connect(t.Context(), mesh.ConnectConfig{Server: url, Name: "a tool"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	file, err := conn.Files(crumbs.AreaToolFile("desk")).Put(t.Context(), "run_1", "stored", "", strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return file.URI
}

// `crumb files get` gives the bytes that were stored, on standard output or in a
// file; a terminal gets a text it cannot be fooled by, and nothing binary.
func TestFiles_Get(t *testing.T) {
	t.Parallel()
	m := serve(t)
	const binary = "\x89PNG\r\n\x1a\n\xff\x00"
	picture, text := store(t, m.URL(), binary), store(t, m.URL(), "paid\x1b[2J\n")
	get := func(args ...string) (out, said string, status int) {
		c := exec.Command("crumb", append([]string{"files", "get"}, args...)...)
		var stdout, stderr bytes.Buffer
		c.Env, c.Stdout, c.Stderr = append(os.Environ(), "NATS_URL="+m.URL()), &stdout, &stderr
		err := c.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return stdout.String(), stderr.String(), c.ProcessState.ExitCode()
	}
	for uri, want := range map[string]string{picture: binary, text: "paid\x1b[2J\n"} {
		if out, said, status := get(uri); out != want || said != "" || status != 0 {
			t.Errorf("%s: status %d, %q, %q; want the bytes and nothing else", uri, status, out, said)
		}
	}
	file := filepath.Join(t.TempDir(), "picture.png")
	for _, c := range []struct {
		args []string
		out  string
	}{
		{[]string{picture, "-o", file}, ""},
		{[]string{picture, "--output", file, "--json"}, `{"uri":"` + picture + `","file":"` + file + `","bytes":10}` + "\n"},
	} {
		out, said, status := get(c.args...)
		if got := read(t, file); got != binary || out != c.out || status != 0 {
			t.Errorf("%q: status %d, %q, %q, the file has %q", c.args, status, out, said, got)
		}
	}
	gone := strings.Replace(picture, "run_1", "run_2", 1)
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{gone}, 1, "FILE_NOT_FOUND: the file " + gone + " is gone"},
		{[]string{"picture.png"}, 1, "FILE_NOT_FOUND"},
		{[]string{gone, "-o", file}, 1, "FILE_NOT_FOUND"},
		{[]string{picture, "-o", filepath.Join(file, "x")}, 2, "INVALID_CONFIG: --output: cannot write"},
		{[]string{picture, "--json"}, 2, "--output FILE"},
	} {
		if out, said, status := get(c.args...); status != c.status || !strings.Contains(out+said, c.says) {
			t.Errorf("%q: status %d, %q, %q; want %d and %q", c.args, status, out, said, c.status, c.says)
		}
	}
	if got := read(t, file); got != binary {
		t.Errorf("what failed changed the file: %q", got)
	}

	s := sit(t, []string{"NATS_URL=" + m.URL(), "NO_COLOR=1"}, "files", "get", text)
	s.expect(`paid\u001b[2J`)
	s.exits(0)
	s = sit(t, []string{"NATS_URL=" + m.URL(), "NO_COLOR=1"}, "files", "get", picture)
	s.expect("the file is binary (10 bytes)")
	s.exits(2)
}
