package main

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/local"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
)

// The commands of docs/hitl.md say what the page says, with the files of the page
// as the project.
func TestDocument_Hitl(t *testing.T) {
	t.Parallel()
	page := read(t, filepath.Join("..", "..", "docs", "hitl.md"))
	folder := t.TempDir()
	for _, block := range blocks(page, "yaml") {
		for file := range strings.SplitSeq(block, "---\n") {
			name, _, _ := strings.Cut(strings.TrimPrefix(file, "# "), "\n")
			put(t, filepath.Join(folder, filepath.FromSlash(name)), file)
		}
	}
	project, err := agent.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	mesh, err := local.Start(t.Context(), local.Config{Store: t.TempDir(), Port: local.AnyPort, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mesh.Stop)
	if _, err := mesh.Serve(t.Context(), project); err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, block := range blocks(page, "console") {
		for transcript := range strings.SplitSeq("\n"+block, "\n$ ") {
			if transcript == "" {
				continue
			}
			commands++
			line, shown, _ := strings.Cut(transcript, "\n")
			cmd := exec.Command("sh", "-c", line)
			cmd.Env, cmd.Dir, cmd.Stdin = append(os.Environ(), "NATS_URL="+mesh.URL()), folder, nil
			out, _ := cmd.CombinedOutput() // what it printed says whether it did what the page says
			says(t, line, shown, string(out))
		}
	}
	if commands < 10 {
		t.Errorf("%d commands", commands)
	}
}

// says checks that the lines of a page stand in an output, in their order; `…` in
// a line is any text, one alone any lines.
func says(t *testing.T, command, shown, out string) {
	t.Helper()
	lines := strings.Split(out, "\n")
	for want := range strings.Lines(shown) {
		want = strings.TrimRight(want, "\n")
		if want == "" || want == "…" {
			continue
		}
		words := strings.Split(want, "…")
		for i, w := range words {
			words[i] = regexp.QuoteMeta(strings.TrimSpace(w))
		}
		pattern := regexp.MustCompile(strings.Join(words, ".*"))
		at := 0
		for at < len(lines) && !pattern.MatchString(lines[at]) {
			at++
		}
		if at == len(lines) {
			t.Errorf("$ %s\nthe page says %q, the command\n%s", command, want, out)
			return
		}
		lines = lines[at+1:]
	}
}

// blocks are the code blocks of a language, in order.
func blocks(page, language string) []string {
	var out []string
	for {
		_, rest, found := strings.Cut(page, "```"+language+"\n")
		block, after, closed := strings.Cut(rest, "```")
		if !found || !closed {
			return out
		}
		out, page = append(out, block), after
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
