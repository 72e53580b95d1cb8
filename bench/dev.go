package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	devStarts = 5
	devRest   = 3 * time.Second // before idle is measured
	devIdle   = 8 * time.Second
)

// dev measures `crumb dev` on a project of one agent.
func dev(ctx context.Context, o options, dir string, report *Report) error {
	crumb, err := binary(ctx, o.crumb, dir, "github.com/crumbmesh/crumbmesh/cmd/crumb")
	if err != nil {
		return err
	}
	project, err := writeProject(dir)
	if err != nil {
		return err
	}
	var starts []time.Duration
	for i := range devStarts {
		p, took, err := startDev(ctx, crumb, project, filepath.Join(dir, "dev"+strconv.Itoa(i)))
		if err != nil {
			return err
		}
		starts = append(starts, took)
		if i == devStarts-1 {
			err = p.idle(report)
		}
		if stopped := p.end(); err == nil {
			err = stopped
		}
		if err != nil {
			return err
		}
	}
	report.add("`crumb dev` on a new store: process starts → serves", "ms", starts)
	return nil
}

// binary is the named program, or the package built into dir.
func binary(ctx context.Context, named, dir, pkg string) (string, error) {
	if named != "" {
		return named, nil
	}
	file := filepath.Join(dir, path.Base(path.Dir(pkg))+"-"+path.Base(pkg))
	build := exec.CommandContext(ctx, "go", "build", "-o", file, pkg)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("go build %s: %w", pkg, err)
	}
	return file, nil
}

func writeProject(dir string) (string, error) {
	project := filepath.Join(dir, "project")
	for name, text := range map[string]string{
		"crumb.yaml":                     "agents: [clerk]\n",
		"agents/clerk/agent.yaml":        "description: Answers.\nmodel: {provider: script, model: main}\n",
		"agents/clerk/scripts/main.yaml": "turns:\n  - text: Done.\n",
	} {
		file := filepath.Join(project, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	return project, nil
}

type devProcess struct {
	cmd  *exec.Cmd
	said *bytes.Buffer // on standard error
}

// startDev returns when the process has said that it serves.
func startDev(ctx context.Context, crumb, project, store string) (*devProcess, time.Duration, error) {
	said := &bytes.Buffer{}
	cmd := exec.CommandContext(ctx, crumb, "--json", "dev", project, "--store", store, "--port", "0", "--http", "127.0.0.1:0")
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, 0, err
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, 0, fmt.Errorf("crumb dev did not serve: %w", errors.Join(err, cmd.Wait(), errors.New(said.String())))
	}
	return &devProcess{cmd, said}, time.Since(begun), nil
}

func (p *devProcess) idle(report *Report) error {
	<-time.After(devRest)
	before, _, err := usageOf(p.cmd.Process.Pid)
	if err != nil {
		return err
	}
	<-time.After(devIdle)
	after, resident, err := usageOf(p.cmd.Process.Pid)
	if err != nil {
		return err
	}
	report.Dev = Dev{CorePercent: 100 * (after - before).Seconds() / devIdle.Seconds(), ResidentMB: float64(resident) / (1 << 20)}
	return nil
}

func (p *devProcess) end() error {
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("crumb dev: %w: %s", err, p.said)
	}
	return nil
}
