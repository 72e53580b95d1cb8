package cli

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

var update = flag.Bool("update", false, "write docs/settings.md again")

const settingsPage = "../../../../docs/settings.md"

const settingsHead = `# Settings

What the services and ` + "`crumb init`" + ` are told. A setting comes from a YAML file (` + "`--config FILE`, `CRUMB_CONFIG`" + `), from the
environment, or from a flag; the later goes before the earlier. A key that a command does not have, and a ` + "`CRUMB_`" + `
variable that nothing reads, is an error. Relative paths in a file start at the file's folder. Lists are YAML lists in a file,
separated by commas elsewhere. Tracing and pushed metrics are set by the standard ` + "`OTEL_*`" + ` variables.

This page is written by ` + "`go test ./cmd/crumb/internal/cli -run TestSettings -update`" + `; a test fails when it is stale.
`

const settingsOfWorkers = `
## A worker of your own

What ` + "`worker.Serve`" + ` of [pkg/tool/worker](../pkg/tool/worker/program.go) reads ([workers.md](workers.md#go)): no flags, since those
are the program's. A variable that is empty counts as one that is not set.

| in a file | variable | default | |
|---|---|---|---|
`

// docs/settings.md has every setting of every service, as the command line knows
// them, and of workers, as their package does.
func TestSettings_PageIsFresh(t *testing.T) {
	t.Parallel()
	var line commands
	app, err := kong.New(&line, kong.Name("crumb"), kong.Bind(&invocation{globals: &line.globals}))
	if err != nil {
		t.Fatal(err)
	}
	page := bytes.NewBufferString(settingsHead)
	section := func(title string, flags []*kong.Flag) {
		fmt.Fprintf(page, "\n## %s\n\n| in a file | variable | flag | default | |\n|---|---|---|---|---|\n", title)
		for _, f := range flags {
			if f.Name == "help" || f.Name == "version" {
				continue
			}
			key := "`" + camel(f.Name) + "`"
			if f.Name == configFlag {
				key = ""
			}
			fmt.Fprintf(page, "| %s | %s | `--%s` | %s | %s |\n", key, code(strings.Join(f.Envs, ", ")), f.Name, code(f.Default), strings.ReplaceAll(f.Help, "|", "\\|"))
		}
	}
	section("Every command", app.Model.Flags)
	for _, name := range []string{"init", "orchestrator", "toolexec", "modelgw", "approvals serve"} {
		node := app.Model.Node
		for word := range strings.FieldsSeq(name) {
			for _, child := range node.Children {
				if child.Name == word {
					node = child
					break
				}
			}
		}
		section("crumb "+strings.TrimSuffix(name, " serve"), node.Flags)
	}
	page.WriteString(settingsOfWorkers)
	for _, s := range worker.Settings() {
		fmt.Fprintf(page, "| %s | `%s` | %s | %s |\n", code(s.Key), s.Variable, code(s.Default), s.Help)
	}
	if *update {
		if err := os.WriteFile(settingsPage, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(settingsPage)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, page.Bytes()) {
		t.Errorf("docs/settings.md is stale: go test ./cmd/crumb/internal/cli -run TestSettings -update")
	}
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}
