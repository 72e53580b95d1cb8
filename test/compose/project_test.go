//go:build e2e

package compose_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

const (
	root = "../.."
	// graceMax is the longest that a service goes on after SIGTERM, by its own default.
	graceMax = 30 * time.Second
)

// nodes are the NATS servers.
var nodes = []string{"nats-1", "nats-2", "nats-3"}

// load reads compose files, the later over the earlier, as `docker compose` does, with
// the variables of env.
func load(ctx context.Context, files []string, env ...string) (*types.Project, error) {
	options, err := cli.NewProjectOptions(files, cli.WithWorkingDirectory(root), cli.WithEnv(env), cli.WithConsistency(true), cli.WithNormalization(true), cli.WithInterpolation(true))
	if err != nil {
		return nil, err
	}
	return options.LoadProject(ctx)
}

func project(t *testing.T, env ...string) *types.Project {
	t.Helper()
	p, err := load(t.Context(), []string{filepath.Join(root, "compose.yaml")}, env...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// serving are the services of ours that stay: those that may be scaled.
func serving(p *types.Project) map[string]types.ServiceConfig {
	out := map[string]types.ServiceConfig{}
	for name, s := range p.Services {
		if strings.HasPrefix(s.Image, "crumbmesh") && name != "init" && name != "apply" {
			out[name] = s
		}
	}
	return out
}

func TestE2E_Compose_HasTheWholeMesh(t *testing.T) {
	t.Parallel()
	p := project(t)
	want := append([]string{"apply", "approvals", "collector", "init", "modelgw", "orchestrator", "toolexec-demo", "toolexec-scripts"}, nodes...)
	if got := p.ServiceNames(); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("services %v, want %v", got, want)
	}
}

// `--scale` works: nothing of a service can be had only once.
func TestE2E_Compose_ServicesScale(t *testing.T) {
	t.Parallel()
	all := serving(project(t))
	if len(all) != 5 {
		t.Fatalf("got %d services, want three and two groups", len(all))
	}
	for name, s := range all {
		if s.ContainerName != "" {
			t.Errorf("%s: container_name %s", name, s.ContainerName)
		}
		if len(s.Ports) != 0 {
			t.Errorf("%s publishes %v", name, s.Ports)
		}
	}
}

// A stopped container has the time to drain, a dead one comes back, and none may do
// more than it needs.
func TestE2E_Compose_ServicesAreKept(t *testing.T) {
	t.Parallel()
	for name, s := range serving(project(t)) {
		if s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) <= graceMax {
			t.Errorf("%s: stop_grace_period %v, want over %s", name, s.StopGracePeriod, graceMax)
		}
		if s.Restart != "unless-stopped" {
			t.Errorf("%s: restart %q", name, s.Restart)
		}
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s is not confined: read_only %v, cap_drop %v, security_opt %v", name, s.ReadOnly, s.CapDrop, s.SecurityOpt)
		}
		if s.HealthCheck == nil || s.HealthCheck.Disable || s.Environment["CRUMB_HTTP"] == nil {
			t.Errorf("%s: healthcheck %+v", name, s.HealthCheck)
		}
	}
}

// The file is checked indeed: what is wrong in it does not load.
func TestE2E_Compose_FaultsAreFound(t *testing.T) {
	t.Parallel()
	good, err := os.ReadFile(filepath.Join(root, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"an unknown key", "stop_grace_period:", "stop_grace_time:", "stop_grace_time"},
		{"a service that is not there", "orchestrator: {condition", "orchestrater: {condition", "orchestrater"},
		{"a volume that is not there", `"published:/work"`, `"publish:/work"`, "publish"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			broken := strings.Replace(string(good), c.old, c.new, 1)
			if broken == string(good) {
				t.Fatalf("compose.yaml says %q nowhere", c.old)
			}
			file := filepath.Join(t.TempDir(), "compose.yaml")
			if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := load(t.Context(), []string{file}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a fault that names %s", err, c.want)
			}
		})
	}
}
