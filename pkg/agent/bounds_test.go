package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Texts that a YAML parser needs a long time or a deep stack for are refused
// before it sees them.
func TestLoad_hostileTextsAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"flow lists":     {strings.Repeat("[", 20_000), "inside each other"},
		"flow objects":   {strings.Repeat("{a: ", 20_000), "inside each other"},
		"dashes":         {strings.Repeat("- ", 20_000), "inside each other"},
		"question marks": {strings.Repeat("? ", 20_000), "inside each other"},
		"block objects":  {nested(100), "inside each other"},
		"items":          {strings.Repeat("-\n", 25_000), "more than 20000 list items"},
		"tokens":         {"[" + strings.Repeat("a,", 60_000), "more than 100000 names"},
		"blank lines":    {"a: |\n" + strings.Repeat("\n", 60_000), "more than 1000 empty lines"},
		"bytes":          {strings.Repeat("#", agent.FileBytesMax+1), "larger than 1048576 bytes"},
		"no UTF-8":       {"a: \xff", "not UTF-8"},
		"zero byte":      {"a: \x00", "not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, []txtar.File{{Name: "agents/a/agent.yaml", Data: []byte(c.text)}})
			_, err := agent.Load(dir)
			if fault.CodeOf(err) != fault.InvalidConfig || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %.300v, want %q", err, c.want)
			}
		})
	}
}

func nested(depth int) string {
	var b strings.Builder
	for i := range depth {
		fmt.Fprintf(&b, "%sa:\n", strings.Repeat(" ", i))
	}
	return b.String()
}

func TestLoad_promptIsBoundedText(t *testing.T) {
	t.Parallel()
	for want, prompt := range map[string]string{
		"prompt.md: INVALID_CONFIG: the prompt is not UTF-8":    "\xff\xfe",
		"prompt.md: INVALID_CONFIG: the file is larger":         strings.Repeat("a", agent.FileBytesMax+1),
		"agent.yaml:1:1: PAYLOAD_TOO_LARGE: the definition has": strings.Repeat("a", agent.DefinitionBytesMax),
	} {
		dir := write(t, []txtar.File{
			{Name: "agents/a/agent.yaml", Data: []byte("model: {provider: script, model: m}")},
			{Name: "agents/a/scripts/m.yaml", Data: []byte("turns: [{text: hello}]")},
			{Name: "agents/a/prompt.md", Data: []byte(prompt)},
		})
		if _, err := agent.Load(dir); err == nil || !strings.HasPrefix(err.Error(), "agents/a/"+want) {
			t.Errorf("got %.200v, want %s", err, want)
		}
	}
}

func TestLoad_tooManyAgents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range agent.AgentsMax + 1 {
		if err := os.MkdirAll(filepath.Join(dir, "agents", fmt.Sprintf("a%d", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := agent.Load(dir); err == nil || err.Error() != "agents: INVALID_CONFIG: expected at most 1000 agents, got 1001" {
		t.Errorf("got %v", err)
	}
}

func TestLoad_noFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(dir, "nosuch")} {
		if _, err := agent.Load(path); fault.CodeOf(err) != fault.InvalidConfig || !strings.Contains(err.Error(), "expected a project folder") {
			t.Errorf("got %v", err)
		}
	}
}

func TestLoad_byteOrderMarkAndWindowsLines(t *testing.T) {
	t.Parallel()
	dir := write(t, []txtar.File{
		{Name: "agents/a/agent.yaml", Data: []byte("\ufeffmodel: {provider: script, model: m}\r\nsteps: {max: 3}\r\n")},
		{Name: "agents/a/scripts/m.yaml", Data: []byte("turns:\r\n  - text: hello\r\n")},
		{Name: "agents/a/prompt.md", Data: []byte("\ufeffHello.\n")},
	})
	p, err := agent.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := p.Agents[0]; d.System != "Hello.\n" || d.Steps.Max != 3 || d.Scripts["m"].Turns[0].Text != "hello" {
		t.Errorf("got %+v", d)
	}
}

func TestClosest(t *testing.T) {
	t.Parallel()
	known := []string{"model", "steps", "permissions", "output"}
	for word, want := range map[string]string{
		"modle": "model", "step": "steps", "permision": "permissions", "Output": "output", "maximum": "", "x": "", "": "",
		"outputs": "output", "perm": "permissions",
	} {
		if got := strings.Join(agent.Closest(word, known), ","); got != want {
			t.Errorf("Closest(%q) = %q, want %q", word, got, want)
		}
	}
}

func FuzzLoadAgentYAML(f *testing.F) {
	for _, archive := range []string{"publisher", "values", "unknown_fields", "not_available", "yaml", "cf_p26_selectors", "scripts"} {
		a, err := txtar.ParseFile(filepath.Join("testdata", "load", archive+".txtar"))
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			if strings.HasSuffix(file.Name, ".yaml") {
				f.Add(file.Data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := agent.ReadAgentText(text)
		if err != nil {
			for _, one := range err.(agent.Faults) {
				if one.File != "agents/fuzz/agent.yaml" || one.Line < 1 || one.Column < 1 || one.Err.Code == "" || one.Err.Code == fault.InternalError || strings.ContainsAny(one.Error(), "\n\r") {
					t.Errorf("fault %q", one)
				}
			}
			return
		}
		if err := d.Check(); err != nil {
			t.Fatalf("what loads does not pass Check: %v", err)
		}
		if clone(t, d).Revision() != d.Revision() {
			t.Error("the revision changes on the wire")
		}
	})
}
