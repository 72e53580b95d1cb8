package readme_test

import (
	"go/format"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The worker of docs/workers.md compiles, and is formatted.
func TestWorkers_GoProgramCompiles(t *testing.T) {
	t.Parallel()
	program := blocks(part(t, document(t, "docs/workers.md"), "## Go"), "go")
	if len(program) != 1 {
		t.Fatalf("%d Go programs, want one", len(program))
	}
	if formatted, err := format.Source([]byte(program[0])); err != nil || string(formatted) != program[0] {
		t.Errorf("the program is not as gofmt writes it (%v)", err)
	}
	dir := t.TempDir()
	write(t, dir, "main.go", program[0])
	vet := exec.CommandContext(t.Context(), "go", "vet", filepath.Join(dir, "main.go"))
	vet.Dir = root
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s", err, out)
	}
}

// What README shows of a worker are lines of that program.
func TestReadme_GoIsPartOfTheProgram(t *testing.T) {
	t.Parallel()
	excerpt := blocks(document(t, "README.md"), "go")
	if len(excerpt) != 1 {
		t.Fatalf("%d excerpts, want one", len(excerpt))
	}
	rest := strings.Join(strings.Fields(blocks(document(t, "docs/workers.md"), "go")[0]), " ")
	for line := range strings.Lines(excerpt[0]) {
		line = strings.Join(strings.Fields(line), " ")
		_, after, found := strings.Cut(rest, line)
		if !found {
			t.Errorf("docs/workers.md does not go on with %q", line)
			continue
		}
		rest = after
	}
}
