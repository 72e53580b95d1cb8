package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
	"github.com/crumbmesh/crumbmesh/services/approvals"
	"github.com/crumbmesh/crumbmesh/services/modelgw"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// parseLine reads a command line as Main does.
func parseLine(t *testing.T, args ...string) (*commands, error) {
	t.Helper()
	var line commands
	app, err := kong.New(&line, kong.Name("crumb"), kong.Resolvers(&configFile{}), kong.Bind(&invocation{globals: &line.globals}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = app.Parse(args)
	return &line, err
}

func configOf(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "service.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A file gives defaults, the environment goes before it, a flag before both.
func TestConfig_Precedence(t *testing.T) {
	path := configOf(t, "server: nats://file:1\nnkey: keys/o.nk\nslots: 3\ngrace: 7s\nprovider: [a, b]\nlogLevel: warn\njsApiPrefix: MESH.JS\njson: true\n")
	t.Setenv("CRUMB_SLOTS", "4")
	t.Setenv("CRUMB_LOG_LEVEL", "error")
	line, err := parseLine(t, "modelgw", "--config", path, "--log-level", "debug")
	if err != nil {
		t.Fatal(err)
	}
	got := line.Modelgw
	if line.Server != "nats://file:1" || got.Grace != 7*time.Second || strings.Join(got.Provider, ",") != "a,b" || line.JSAPIPrefix != "MESH.JS" || !line.JSON {
		t.Errorf("from the file: %+v %+v", line.globals, got)
	}
	if want := filepath.Join(filepath.Dir(path), "keys/o.nk"); line.NKey != want {
		t.Errorf("a relative path starts at the file's folder: got %s, want %s", line.NKey, want)
	}
	if got.Slots != 4 || got.LogLevel != "debug" {
		t.Errorf("slots %d (environment: 4), log level %s (flag: debug)", got.Slots, got.LogLevel)
	}
	t.Setenv("CRUMB_CONFIG", path)
	if line, err = parseLine(t, "modelgw"); err != nil || line.Server != "nats://file:1" || line.Modelgw.LogLevel != "error" {
		t.Errorf("named by CRUMB_CONFIG: %v %+v", err, line)
	}
}

// A health check has the environment of the process it asks, and its file is not
// about it; one that is given to it is.
func TestConfig_HealthReadsNoFileOfTheProcess(t *testing.T) {
	path := configOf(t, "server: nats://file:1\ngroup: demo\nhttp: :8480\n")
	t.Setenv("CRUMB_CONFIG", path)
	t.Setenv("CRUMB_HTTP", ":8490")
	if line, err := parseLine(t, "health"); err != nil || line.Health.Address != ":8490" {
		t.Errorf("got %q, %v", line.Health.Address, err)
	}
	if _, err := parseLine(t, "health", "--config", path); err == nil || !strings.Contains(err.Error(), `"group" is no setting of this command`) {
		t.Errorf("given to it: %v", err)
	}
}

// What a file may not say is an error that names file, line and what it may say.
func TestConfig_Strict(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"slots: 3\nslotz: 4\n":                `:2: "slotz" is no setting of this command; its settings are: creds, grace,`,
		"log-level: warn\n":                   `:1: "log-level" is no setting`,
		"config: other.yaml\n":                `:1: "config" is no setting`,
		"dir: here\n":                         `:1: "dir" is no setting`,
		"slots:\n  a: 1\n":                    ":1: slots: expected a text, a number, a boolean or a list of them, got map",
		"- slots\n":                           "expected settings, one `key: value` a line",
		"slots: 1\nslots: 2\n":                `"slots" already defined`,
		"slots: 3\n---\nslots: 2\n":           ":2: a second document: expected one",
		"slots: many\n":                       "expected a valid 64 bit int",
		"logLevel: loud\n":                    "must be one of",
		"slots: {\n":                          "service.yaml",
		strings.Repeat("#", configBytesMax+1): "expected at most",
	} {
		_, err := parseLine(t, "modelgw", "--config", configOf(t, text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	if _, err := parseLine(t, "modelgw", "--config", "/nowhere/x.yaml"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}

// What is wrong with the file is told once, and blames no flag beside it.
func TestConfig_FaultIsToldOnce(t *testing.T) {
	t.Parallel()
	path := configOf(t, "slotz: 4\n")
	status, _, errs := crumb(t, "modelgw", "--config", path)
	if want := "crumb: INVALID_CONFIG: " + path + `:1: "slotz" is no setting of this command; its settings are: `; status != statusUsage || !strings.HasPrefix(errs, want) || strings.Contains(errs, "--help") {
		t.Errorf("status %d: %s", status, errs)
	}
	if _, _, errs := crumb(t, "modelgw", "--config", "/nowhere/x.yaml"); !strings.HasPrefix(errs, "crumb: INVALID_CONFIG: --config: open /nowhere/x.yaml: no such file") {
		t.Error(errs)
	}
}

// A mistyped variable is refused: a default in force without a word would be
// found only in production.
func TestVariables_Strict(t *testing.T) {
	t.Parallel()
	var line commands
	app, err := kong.New(&line, kong.Bind(&invocation{globals: &line.globals}))
	if err != nil {
		t.Fatal(err)
	}
	if err := checkVariables(app.Model, []string{"CRUMB_SLOTS=3", "CRUMB_CONFIG=x", "PATH=/bin", "CRUMBS=1", "CRUMB_APPROVALS_PUBKEY=k"}); err != nil {
		t.Error(err)
	}
	err = checkVariables(app.Model, []string{"CRUMB_SLOT=3"})
	if fault.CodeOf(err) != fault.InvalidConfig || !strings.Contains(err.Error(), "CRUMB_SLOT is no setting; the variables are: CRUMB_APPROVALS_KEY_FILE,") {
		t.Error(err)
	}
}

func TestQueues(t *testing.T) {
	t.Parallel()
	all := map[string]int{"scripts": 0}
	if err := queues(all, "--group", "worker group", []string{"payments=10", "mail"}); err != nil || all["payments"] != 10 || all["mail"] != 0 || len(all) != 3 {
		t.Error(all, err)
	}
	for _, word := range []string{"a=0", "a=x", "a=", "A", "", "a=-1"} {
		if err := queues(map[string]int{}, "--group", "worker group", []string{word}); err == nil {
			t.Errorf("%q was taken", word)
		}
	}
}

// Every service takes the same setting of how long it may finish what it has in
// hand, from each place, and refuses none at all.
func TestConfig_EveryServiceHasAGrace(t *testing.T) {
	t.Parallel()
	for service, c := range map[string]struct {
		words []string
		grace func(*commands) time.Duration
		usual time.Duration
	}{
		"orchestrator": {[]string{"orchestrator", "--approvals-pubkey", "x"}, func(l *commands) time.Duration { return l.Orchestrator.Grace }, orchestrator.GraceDefault},
		"approvals":    {[]string{"approvals", "serve", "--key-file", "x"}, func(l *commands) time.Duration { return l.Approvals.Serve.Grace }, approvals.GraceDefault},
		"modelgw":      {[]string{"modelgw"}, func(l *commands) time.Duration { return l.Modelgw.Grace }, modelgw.GraceDefault},
		"toolexec":     {[]string{"toolexec", "--dir", "."}, func(l *commands) time.Duration { return l.Toolexec.Grace }, worker.GraceDefault},
	} {
		file := configOf(t, "grace: 7s\n")
		for _, at := range []struct {
			words []string
			want  time.Duration
		}{{nil, c.usual}, {[]string{"--config", file}, 7 * time.Second}, {[]string{"--config", file, "--grace", "3s"}, 3 * time.Second}} {
			line, err := parseLine(t, slices.Concat(c.words, at.words)...)
			if err != nil || c.grace(line) != at.want {
				t.Errorf("%s %v: %v, want %s", service, at.words, err, at.want)
			}
		}
		if status, _, errs := crumb(t, append(c.words, "--grace", "0s")...); status != statusUsage || !strings.Contains(errs, "--grace: expected a duration over 0, got 0s") {
			t.Errorf("%s without any: status %d: %s", service, status, errs)
		}
	}
}
