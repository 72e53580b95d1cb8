package agent_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata/load")

// Names of the expectations in an archive.
const (
	wantFaults   = "want-faults"
	wantWarnings = "want-warnings"
	wantProject  = "want-project.json"
)

// loaded loads the project in an archive and compares everything that comes out
// with what the archive expects.
func loaded(t *testing.T, name string) (*agent.Project, error) {
	t.Helper()
	path := filepath.Join("testdata", "load", name+".txtar")
	a, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, files := map[string]string{}, []txtar.File{}
	for _, f := range a.Files {
		if strings.HasPrefix(f.Name, "want-") {
			want[f.Name] = string(f.Data)
			continue
		}
		files = append(files, f)
	}
	p, err := agent.Load(write(t, files))
	got := outcome(t, p, err)
	if *update {
		rewriteWant(t, path, a, files, got)
		return p, err
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Load (-want +got; -update rewrites):\n%s", d)
	}
	return p, err
}

// outcome is what Load returned, as the files of an archive.
func outcome(t *testing.T, p *agent.Project, err error) map[string]string {
	t.Helper()
	got := map[string]string{}
	if err != nil {
		if p != nil {
			t.Error("Load returned a project beside its faults")
		}
		got[wantFaults] = err.Error() + "\n"
		return got
	}
	if len(p.Warnings) > 0 {
		got[wantWarnings] = strings.Join(p.Warnings, "\n") + "\n"
	}
	text, err := json.MarshalIndent(map[string]any{"agents": p.Agents, "groups": p.Groups, "providers": p.Providers}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got[wantProject] = string(text) + "\n"
	return got
}

func rewriteWant(t *testing.T, path string, a *txtar.Archive, files []txtar.File, got map[string]string) {
	t.Helper()
	a.Files = files
	for _, name := range []string{wantFaults, wantWarnings, wantProject} {
		if text, ok := got[name]; ok {
			a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(text)})
		}
	}
	if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
}

// refused loads an archive that must be refused with each of the codes.
func refused(t *testing.T, name string, codes ...fault.Code) {
	t.Helper()
	_, err := loaded(t, name)
	var faults agent.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("Load: got %v, want Faults", err)
	}
	for _, code := range codes {
		if !errors.Is(err, fault.Of(code)) {
			t.Errorf("no %s among the faults", code)
		}
	}
}

func TestLoad_project(t *testing.T) {
	t.Parallel()
	p, err := loaded(t, "publisher")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range p.Agents {
		if err := d.Check(); err != nil {
			t.Errorf("%s: what loads does not pass Check: %v", d.ID, err)
		}
	}
}

func TestLoad_CF_P26_L7_malformedSelectorStopsTheLoad(t *testing.T) {
	t.Parallel()
	refused(t, "cf_p26_selectors", fault.InvalidPermission)
}

func TestLoad_L8_badNamesAreRefusedWithTheRightSpelling(t *testing.T) {
	t.Parallel()
	refused(t, "l8_names", fault.InvalidName)
}

func TestLoad_W40_oneBrokenFileRefusesTheFolder(t *testing.T) {
	t.Parallel()
	refused(t, "w40_every_fault", fault.InvalidConfig)
}

func TestLoad_W40_nothingIsSkippedSilently(t *testing.T) {
	t.Parallel()
	refused(t, "strays", fault.InvalidConfig)
}

func TestLoad_unknownFieldsHaveTheCloseSpelling(t *testing.T) {
	t.Parallel()
	refused(t, "unknown_fields", fault.InvalidConfig)
}

func TestLoad_whatIsNotBuiltIsNamed(t *testing.T) {
	t.Parallel()
	refused(t, "not_available", fault.NotAvailable)
}

func TestLoad_yaml(t *testing.T) {
	t.Parallel()
	refused(t, "yaml", fault.InvalidConfig)
}

func TestLoad_tools(t *testing.T) {
	t.Parallel()
	refused(t, "tools", fault.InvalidConfig)
}

func TestLoad_scripts(t *testing.T) {
	t.Parallel()
	refused(t, "scripts", fault.InvalidConfig)
}

func TestLoad_agents(t *testing.T) {
	t.Parallel()
	refused(t, "values", fault.InvalidConfig, fault.UnknownProvider)
}

func TestLoad_crumbYAML(t *testing.T) {
	t.Parallel()
	refused(t, "project", fault.InvalidConfig, fault.InvalidName)
	refused(t, "project_watch", fault.InvalidConfig)
}

// What is wrong with crumb.yaml hides nothing of what is wrong with the agents.
func TestLoad_crumbYAMLHidesNothing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"project_broken", "project_kind", "project_slip"} {
		refused(t, name, fault.InvalidConfig)
	}
}

// The folder of an agent, or the one that holds the agents, is not the project:
// the fault says which is.
func TestLoad_namesTheProjectFolder(t *testing.T) {
	t.Parallel()
	refused(t, "agent_folder", fault.InvalidConfig)
	dir := unpack(t, filepath.Join("testdata", "load", "warnings.txtar"))
	for folder, want := range map[string]string{"agents/a": "agent.yaml: INVALID_CONFIG: this is the folder of one agent", "agents": "agents: INVALID_CONFIG: no such folder here, and this one is called agents itself"} {
		_, err := agent.Load(filepath.Join(dir, filepath.FromSlash(folder)))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "name the project folder") {
			t.Errorf("%s: %v", folder, err)
		}
	}
}

func TestLoad_withoutAgents(t *testing.T) {
	t.Parallel()
	refused(t, "empty", fault.InvalidConfig)
}

func TestLoad_warnings(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"warnings", "watch_warnings"} {
		if _, err := loaded(t, name); err != nil {
			t.Fatal(err)
		}
	}
}
