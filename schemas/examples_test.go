package schemas_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/crumbmesh/crumbmesh/schemas"
)

const fileKinds = 4 // project, agent, tool, script

// fileSchema names the schema of a file people write, "" when there is none.
func fileSchema(path string) string {
	switch folder := filepath.Base(filepath.Dir(path)); {
	case filepath.Base(path) == "crumb.yaml":
		return "file.project"
	case filepath.Base(path) == "agent.yaml":
		return "file.agent"
	case folder == "tools" && strings.HasSuffix(path, ".yaml"):
		return "file.tool"
	case folder == "scripts" && strings.HasSuffix(path, ".yaml"):
		return "file.script"
	}
	return ""
}

// The examples' files fit the schemas that editors use.
func TestExamples_FitTheSchemasOfFiles(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	err := filepath.WalkDir(filepath.Join("..", "examples"), func(path string, _ fs.DirEntry, err error) error {
		name := fileSchema(path)
		if err != nil || name == "" {
			return err
		}
		seen[name] = true
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		doc, err := yaml.YAMLToJSON(text)
		if err != nil {
			return err
		}
		schema, err := schemas.Compile(name)
		if err != nil {
			return err
		}
		if err := schema.Validate(parse(t, doc)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != fileKinds {
		t.Errorf("the examples have files of %v only, want one of each kind", seen)
	}
}
