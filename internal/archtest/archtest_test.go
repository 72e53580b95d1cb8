package archtest_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/crumbmesh/crumbmesh/internal/archtest"
)

// violationsMax is how many of one rule are printed.
const violationsMax = 50

type rule struct {
	name   string
	check  func(*archtest.Tree) []string
	broken map[string]string // a tree that breaks it
	want   []string          // what each violation says, in order
}

const module = archtest.Module

func rules() []rule {
	return []rule{
		{"Layers", archtest.Layers, map[string]string{
			"pkg/mesh/a.go":     "package mesh\nimport _ \"" + module + "/services/modelgw\"\n",
			"services/s/a.go":   "package s\nimport _ \"" + module + "/cmd/crumb\"\n",
			"examples/e/a.go":   "package e\nimport _ \"" + module + "/cmd/crumb\"\n",
			"tools/a.go":        "package tools\n",
			"schemas/a_test.go": "package schemas\nimport _ \"" + module + "/pkg/crumbs\"\n",
			"cmd/crumb/main.go": "package main\nimport _ \"" + module + "/services/modelgw\"\n",
		}, []string{"examples/e imports cmd/crumb", "pkg/mesh imports services/modelgw", "services/s imports cmd/crumb", "tools is on no floor"}},
		{"TestSupport", archtest.TestSupport, map[string]string{
			"pkg/mesh/a.go":      "package mesh\nimport _ \"" + module + "/internal/meshtest\"\n",
			"pkg/mesh/a_test.go": "package mesh\nimport _ \"" + module + "/internal/meshtest\"\n",
		}, []string{"pkg/mesh/a.go:2: internal/meshtest is test support"}},
		{"Services", archtest.Services, map[string]string{
			"services/a/a.go":      "package a\nimport _ \"" + module + "/services/b\"\n",
			"services/a/a_test.go": "package a\nimport _ \"" + module + "/services/b/internal/x\"\n",
			"services/b/b.go":      "package b\nimport _ \"" + module + "/services/b/internal/x\"\n",
			"cmd/c/c.go":           "package c\nimport _ \"" + module + "/services/b/internal/x\"\n",
		}, []string{"services/b/internal/x is internal to service b", "service a imports service b", "service a imports service b"}},
		{"Closed", archtest.Closed, map[string]string{
			"pkg/perm/a.go":               "package perm\nimport (\n_ \"" + module + "/pkg/fault\"\n_ \"" + module + "/pkg/crumbs\"\n)\n",
			"pkg/crumbs/jscrumbs/a.go":    "package jscrumbs\nimport _ \"" + module + "/pkg/mesh\"\n",
			"internal/protocol/x/a.go":    "package x\nimport _ \"" + module + "/pkg/fault\"\n",
			"internal/protocol/x/b.go":    "package x\nimport _ \"" + module + "/internal/protocol/search\"\n",
			"pkg/argument/a_test.go":      "package argument\nimport _ \"" + module + "/pkg/crumbs\"\n",
			"services/orchestrator/r.go":  "package orchestrator\nimport _ \"" + module + "/pkg/mesh\"\n",
			"pkg/crumbs/a.go":             "package crumbs\nimport _ \"" + module + "/pkg/mesh\"\n",
			"pkg/crumbs/fits.go":          "package crumbs\nimport _ \"" + module + "/schemas\"\n",
			"pkg/tool/worker/anything.go": "package worker\nimport _ \"" + module + "/pkg/mesh\"\n",
		}, []string{"pkg/perm/a.go:4: ", "pkg/crumbs/a.go:2: ", "internal/protocol/x/a.go:2: "}},
		{"NATS", archtest.NATS, map[string]string{
			"pkg/agent/a.go":                 "package agent\nimport _ \"github.com/nats-io/nats.go\"\n",
			"pkg/agent/a_test.go":            "package agent\nimport _ \"github.com/nats-io/nats.go\"\n",
			"pkg/crumbs/a.go":                "package crumbs\nimport _ \"github.com/nats-io/nats.go\"\n",
			"pkg/crumbs/other/a.go":          "package other\nimport _ \"github.com/nats-io/nats.go/jetstream\"\n",
			"pkg/mesh/embedded/a.go":         "package embedded\nimport _ \"github.com/nats-io/nats-server/v2/server\"\n",
			"services/modelgw/run.go":        "package modelgw\nimport _ \"github.com/nats-io/nats-server/v2/server\"\n",
			"services/modelgw/internal/x.go": "package internal\nimport _ \"github.com/nats-io/nkeys\"\n",
		}, []string{"pkg/agent names NATS", "pkg/crumbs/other names NATS", "services/modelgw names NATS"}},
		{"Core", archtest.Core, map[string]string{
			"services/orchestrator/internal/core/a.go":      "package core\nimport (\n\"time\"\n_ \"math/rand/v2\"\n_ \"github.com/nats-io/nats.go\"\n)\nvar x = time.Now()\n",
			"services/orchestrator/internal/core/b.go":      "package core\nimport \"time\"\nvar y = time.Second\n",
			"services/orchestrator/internal/core/a_test.go": "package core\nimport _ \"os\"\n",
		}, []string{"math/rand/v2 is not", "nats.go is not", "time.Now in the run machine"}},
		{"Sleeps", archtest.Sleeps, map[string]string{
			"pkg/a/a_test.go": "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }\n",
			"pkg/a/a.go":      "package a\nimport \"time\"\nfunc g() { time.Sleep(1) }\n",
		}, []string{"pkg/a/a_test.go:3: time.Sleep"}},
		{"Skips", archtest.Skips, map[string]string{
			"pkg/a/a_test.go": "package a\nimport \"testing\"\nfunc TestX(t *testing.T) { t.Skip(\"later\") }\nfunc FuzzX(f *testing.F) { f.SkipNow() }\nfunc g(s scanner) { s.Skip() }\n",
		}, []string{"a_test.go:3: a test that skips", "a_test.go:4: a test that skips"}},
		{"Inits", archtest.Inits, map[string]string{
			"pkg/a/a.go": "package a\nfunc init() {}\ntype t struct{}\nfunc (t) init() {}\n",
		}, []string{"pkg/a/a.go:2: init()"}},
		{"Unfinished", archtest.Unfinished, map[string]string{
			"pkg/a/a.go": "package a\n// TO" + "DO: more\nvar s = \"TO" + "DO\"\n",
		}, []string{"pkg/a/a.go:2: TO" + "DO"}},
		{"Names", archtest.Names, map[string]string{
			"pkg/util/a.go": "package util\n", "pkg/shared/a.go": "package money\n", "pkg/fine/a.go": "package fine\n",
		}, []string{"pkg/shared/a.go: ", "pkg/util/a.go: "}},
		{"Tags", archtest.Tags, map[string]string{
			"pkg/a/a.go": "//go:build unix && !slow\n\npackage a\n", "pkg/a/b.go": "//go:build e2e\n\npackage a\n",
		}, []string{"pkg/a/a.go:1: build tag slow"}},
		{"EndToEnd", archtest.EndToEnd, map[string]string{
			"pkg/a/a_test.go": "//go:build unix\n\npackage a\nfunc TestE2E_x() {}\nfunc TestY() {}\n",
			"pkg/a/b_test.go": "//go:build e2e && unix\n\npackage a\nfunc TestE2E_z() {}\nfunc TestMain() {}\nfunc TestOther() {}\n",
		}, []string{"a_test.go:4: TestE2E_x", "b_test.go:6: TestOther"}},
		{"Links", archtest.Links, map[string]string{
			"README.md":     "# A b\n[x](docs/a.md) [y](docs/none.md) [z](docs/a.md#part-two) [w](docs/a.md#part-three)\n[h](#a-b) [n](https://example.org/none) `[c](none)`\n```\n[f](none)\n```\n",
			"docs/a.md":     "## Part *two*\n[up](../../x.md)\n",
			"pkg/x/notes.x": "",
		}, []string{"README.md:2: link docs/none.md", "README.md:2: link docs/a.md#part-three", "docs/a.md:2: link ../../x.md leaves"}},
		{"Citations", archtest.Citations, map[string]string{
			"pkg/x/a.go": "// Package x is told in docs/a.md (ADR 0001), schemas/a.json, schemas/crumb.*, here.md and docs/none.md.\n" +
				"package x\n\n/* See\nplan.md §2, ADR 0002 and\nschemas/b.json. An agent's prompt.md is its own. */\nvar s = \"docs/other.md\"\n",
			"pkg/x/here.md":      "[text](../../docs/none.md) and `gone.md`, not\n```\nlost.md\n```\n",
			"docs/a.md":          "a.md and docs/a.md\n",
			"docs/adr/0001-a.md": "",
			"schemas/a.json":     "{}",
		}, []string{"a.go:1: cites docs/none.md", "a.go:5: § cites a section", "a.go:5: cites plan.md", "a.go:5: cites ADR 0002",
			"a.go:6: cites schemas/b.json", "pkg/x/here.md:1: cites gone.md"}},
	}
}

func TestRules_RepositoryHoldsThem(t *testing.T) {
	t.Parallel()
	tree, err := archtest.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Files) == 0 || len(tree.Documents) == 0 {
		t.Fatalf("nothing was read: %d files, %d documents", len(tree.Files), len(tree.Documents))
	}
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			for i, v := range r.check(tree) {
				if i == violationsMax {
					t.Fatalf("more than %d violations", violationsMax)
				}
				t.Error(v)
			}
		})
	}
}

func TestRules_FindWhatBreaksThem(t *testing.T) {
	t.Parallel()
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			files := fstest.MapFS{}
			for name, text := range r.broken {
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
			tree, err := archtest.Load(files)
			if err != nil {
				t.Fatal(err)
			}
			got := r.check(tree)
			if len(got) != len(r.want) {
				t.Fatalf("got %d violations, want %d:\n%s", len(got), len(r.want), strings.Join(got, "\n"))
			}
			for i, v := range got {
				if !strings.Contains(v, r.want[i]) {
					t.Errorf("violation %d is %q, want it to say %q", i, v, r.want[i])
				}
			}
		})
	}
}

func TestLoad_SkipsWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	tree, err := archtest.Load(fstest.MapFS{
		"node_modules/a/a.go": {Data: []byte("no go")}, "pkg/a/testdata/b.go": {Data: []byte("no go")}, "pkg/a/a.go": {Data: []byte("package a\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Files) != 1 || tree.Files[0].Path != "pkg/a/a.go" {
		t.Errorf("got %v, want pkg/a/a.go only", tree.Files)
	}
}

func TestLoad_SaysWhichFileIsBroken(t *testing.T) {
	t.Parallel()
	_, err := archtest.Load(fstest.MapFS{"pkg/a/a.go": {Data: []byte("no go")}})
	if err == nil || !strings.Contains(err.Error(), "pkg/a/a.go") {
		t.Errorf("got %v, want an error that names pkg/a/a.go", err)
	}
}
