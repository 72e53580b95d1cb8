package main

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/test/chaos/internal/check"
)

//go:embed project
var project embed.FS

// scenario is one mesh and what is done to it.
type scenario struct {
	name   string
	runs   int
	length time.Duration
	stage  func(ctx context.Context, w *workshop) (*place, error)
}

func scenarios() []scenario {
	return []scenario{
		{scenarioProcesses, processesRuns, processesLength, stageProcesses},
		{scenarioCluster, clusterRuns, clusterLength, stageCluster},
	}
}

// outcome is what became of a scenario.
type outcome struct {
	Scenario string
	Done     []done
	Result   check.Result
	Took     time.Duration
}

// campaign plays the scenarios and returns what became of them. It fails when a
// scenario could not be played, or when a promise was not kept.
func campaign(ctx context.Context, o options) (all []outcome, err error) {
	o.say("chaos: seed %d", o.seed)
	w, err := newWorkshop(ctx, o)
	if err != nil {
		return nil, err
	}
	broken := 0
	for _, s := range scenarios() {
		if !o.does(s.name) {
			continue
		}
		if o.runs > 0 {
			s.runs = o.runs
		}
		if o.length > 0 {
			s.length = o.length
		}
		out, err := play(ctx, w, s)
		if err != nil {
			return all, fmt.Errorf("%s: %w; logs are in %s", s.name, err, w.dir)
		}
		all = append(all, out)
		broken += len(out.Result.Violations)
	}
	if broken > 0 {
		return all, fmt.Errorf("%d violations with seed %d; logs are in %s", broken, o.seed, w.dir)
	}
	if o.report != "" {
		if err := writeReport(o.report, o.seed, all); err != nil {
			return all, err
		}
	}
	if !o.keep {
		return all, os.RemoveAll(w.dir)
	}
	o.say("chaos: kept %s", w.dir)
	return all, nil
}

// workshop is what all scenarios are made with.
type workshop struct {
	options
	dir string // of the campaign: bin/, project/, and a folder a scenario
}

// newWorkshop builds the programs and lays the project out.
func newWorkshop(ctx context.Context, o options) (*workshop, error) {
	dir, err := os.MkdirTemp("", "crumb-chaos-")
	if err != nil {
		return nil, err
	}
	w := &workshop{o, dir}
	files, err := fs.Sub(project, "project")
	if err != nil {
		return nil, err
	}
	if err := os.CopyFS(w.path("project"), files); err != nil {
		return nil, err
	}
	return w, w.build(ctx)
}

func (w *workshop) path(elements ...string) string {
	return filepath.Join(append([]string{w.dir}, elements...)...)
}

// build makes the programs of this source tree, and the nats-server of go.mod.
func (w *workshop) build(ctx context.Context) error {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	args := append([]string{"build", "-o", w.path("bin") + string(filepath.Separator)}, programs()...)
	build := exec.CommandContext(ctx, "go", args...)
	build.Dir = strings.TrimSpace(string(root))
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

func programs() []string {
	const module = "github.com/crumbmesh/crumbmesh"
	return []string{module + "/cmd/crumb", module + "/test/chaos/tools", "github.com/nats-io/nats-server/v2"}
}

func (w *workshop) bin(name string) string { return w.path("bin", name) }
