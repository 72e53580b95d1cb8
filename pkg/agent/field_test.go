package agent

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/crumbmesh/crumbmesh/schemas"
)

// The schemas that editors use and the loader agree: a field of a schema is read
// or refused as not built, and a field that is read is in the schema.
func TestFields_areThoseOfTheSchemas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fields fields
		schema string
		path   string // to the object's properties
	}{
		"crumb.yaml":   {projectFields(), "file.project", "properties"},
		"group":        {groupFields(), "file.project", "properties groups additionalProperties properties"},
		"agent.yaml":   {agentFields(), "file.agent", "properties"},
		"output":       {outputFields(), "file.agent", "properties output properties"},
		"custom":       {customFields(), "file.agent", "properties output properties format custom properties"},
		"alias":        {aliasFields(), "file.project", "properties models additionalProperties properties"},
		"plugin":       {pluginFields(), "file.project", "properties plugins items properties"},
		"hooks":        {hooksFields(), "common", "$defs Hooks properties"},
		"tool hooks":   {toolHooksFields(), "common", "$defs ToolHooks properties"},
		"hook":         {hookFields(), "common", "$defs Hook properties"},
		"hook worker":  {hookWorkerFields(), "common", "$defs Hook properties worker properties"},
		"approval":     {approvalFields(), "file.tool", "$defs fields properties approval properties"},
		"steps":        {stepsFields(), "file.agent", "properties steps properties"},
		"model":        {modelFields(), "common", "$defs ModelChoice properties"},
		"settings":     {settingsFields(), "common", "$defs ModelSettings properties"},
		"permissions":  {permissionFields(), "common", "$defs Permissions properties"},
		"error":        {errorFields(), "common", "$defs ErrorHandling properties"},
		"retry":        {retryFields(), "common", "$defs Retry properties"},
		"usage":        {usageFields(), "common", "$defs Usage properties"},
		"tool":         {toolFields(), "file.tool", "$defs fields properties"},
		"worker":       {workerFields(), "file.tool", "$defs fields properties worker properties"},
		"human":        {humanFields(), "file.tool", "$defs fields properties human properties"},
		"script":       {scriptFields(), "file.script", "properties"},
		"turn":         {turnFields(), "file.script", "properties turns items properties"},
		"script call":  {scriptCallFields(), "file.script", "properties turns items properties toolCalls items properties"},
		"script error": {scriptErrorFields(), "file.script", "properties turns items properties error properties"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			properties := schemaAt(t, c.schema, strings.Fields(c.path))
			for p := range properties {
				if !slices.Contains(slices.Concat(c.fields.built, c.fields.later), p) {
					t.Errorf("the schema's %s is unknown here", p)
				}
			}
			for _, f := range c.fields.built {
				if _, ok := properties[f]; !ok {
					t.Errorf("%s is not in the schema", f)
				}
			}
		})
	}
}

func schemaAt(t *testing.T, name string, path []string) map[string]any {
	t.Helper()
	text, err := schemas.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	var at map[string]any
	if err := json.Unmarshal(text, &at); err != nil {
		t.Fatal(err)
	}
	for _, step := range path {
		if forms, ok := at["oneOf"].([]any); ok && step == "custom" { // the form that is an object
			at, _ = forms[len(forms)-1].(map[string]any)
			continue
		}
		next, ok := at[step].(map[string]any)
		if !ok {
			t.Fatalf("%s has no %s in %v", name, step, path)
		}
		at = next
	}
	return at
}

// What loads is what editors accept.
func TestFields_aProjectThatLoadsFitsTheSchemas(t *testing.T) {
	t.Parallel()
	var files []txtar.File
	for _, name := range []string{"publisher", "hooks"} {
		a, err := txtar.ParseFile("testdata/load/" + name + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, a.Files...)
	}
	checked := 0
	for _, f := range files {
		schema := map[bool]string{
			f.Name == projectFile:                        "file.project",
			strings.HasSuffix(f.Name, "/"+agentFile):     "file.agent",
			strings.Contains(f.Name, "/"+toolsDir+"/"):   "file.tool",
			strings.Contains(f.Name, "/"+scriptsDir+"/"): "file.script",
		}[true]
		if schema == "" || !strings.HasSuffix(f.Name, yamlExt) {
			continue
		}
		checked++
		s, err := schemas.Compile(schema)
		if err != nil {
			t.Fatal(err)
		}
		root, bad := parseYAML(f.Data)
		if bad != nil {
			t.Fatal(bad.err)
		}
		var doc any
		if err := json.Unmarshal(root.json(), &doc); err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(doc); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	if checked != 17 {
		t.Errorf("%d files checked, want 17", checked)
	}
}
