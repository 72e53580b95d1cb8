//go:build e2e

package chart_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/nats-io/nkeys"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

const (
	chart = "../../deploy/k8s/crumbmesh"
	// kube is the Kubernetes whose schemas check the output, the newest that
	// kubectl-validate holds.
	kube = "1.30"
)

// valueFiles render the chart with as little, and with as much, as it takes.
var valueFiles = []string{"minimal", "full"}

func tool(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("%s names nothing; run `make test-all`, which installs it", variable)
	}
	return path
}

// command runs a command and returns what it printed, errors last.
func command(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if c.ProcessState == nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err != nil {
		return out.String() + errs.String(), err
	}
	return out.String(), nil
}

// render is the chart with a file of values and what else is set.
func render(t *testing.T, values string, set ...string) (string, error) {
	t.Helper()
	args := []string{"template", "mesh", chart, "--kube-version", kube, "-f", filepath.Join(chart, "ci", values+"-values.yaml")}
	for _, s := range set {
		args = append(args, "--set-json", s)
	}
	return command(t, tool(t, "HELM"), args...)
}

func validate(t *testing.T, manifests string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	if err := os.WriteFile(file, []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	return command(t, tool(t, "KUBECTL_VALIDATE"), "--version", kube, "--local-crds", tool(t, "CRDS"), file)
}

func TestE2E_Chart_IsWhatKubernetesTakes(t *testing.T) {
	t.Parallel()
	for _, values := range valueFiles {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			if out, err := command(t, tool(t, "HELM"), "lint", "--strict", chart, "-f", filepath.Join(chart, "ci", values+"-values.yaml")); err != nil {
				t.Fatalf("helm lint: %v\n%s", err, out)
			}
			manifests, err := render(t, values)
			if err != nil {
				t.Fatalf("helm template: %v\n%s", err, manifests)
			}
			if out, err := validate(t, manifests); err != nil {
				t.Errorf("kubectl-validate: %v\n%s", err, out)
			}
		})
	}
}

// What would be wrong is found: the schemas are those of the kinds that the chart
// makes.
func TestE2E_Chart_ValidationFindsFaults(t *testing.T) {
	t.Parallel()
	good, err := render(t, "full")
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, good)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"ScaledObject", "maxReplicaCount: 20", "maxReplicaCount: many", "maxReplicaCount"},
		{"Deployment", "automountServiceAccountToken:", "automountServiceAcountToken:", "automountServiceAcountToken"},
		{"PodDisruptionBudget", "maxUnavailable: 1\n", "maxUnavailble: 1\n", "maxUnavailble"},
		{"Job", "backoffLimit: 5", "backoffLimit: five", "backoffLimit"},
		{"PodMonitor", "podMetricsEndpoints:", "podMetricEndpoints:", "podMetricEndpoints"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			broken := strings.Replace(good, c.old, c.new, 1)
			if broken == good {
				t.Fatalf("the chart says %q nowhere", c.old)
			}
			if out, err := validate(t, broken); err == nil || !strings.Contains(out, c.want) {
				t.Errorf("got %v, want a fault that names %s:\n%s", err, c.want, out)
			}
		})
	}
}

func TestE2E_Chart_RefusesWrongValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, values, set, want string }{
		{"no NATS", "minimal", `nats={"url":""}`, "nats"},
		{"a password in the URL", "minimal", `nats.url="nats://a:b@nats:4222"`, "url"},
		{"no signing key", "minimal", `approvals.keySecret=""`, "keySecret"},
		{"no public key", "minimal", `approvals.publicKeys=[]`, "publicKeys"},
		{"a key that is none", "minimal", `approvals.publicKeys=["secret"]`, "publicKeys"},
		{"a key to replace that is none", "minimal", `approvals.replaces="old"`, "replaces"},
		{"an unknown field", "minimal", `orchestrater={}`, "orchestrater"},
		{"a group's unknown field", "minimal", `groups=[{"name":"a","slot":1}]`, "slot"},
		{"a name that is none", "minimal", `groups=[{"name":"Card-Payments"}]`, "name"},
		{"a group twice", "minimal", `groups=[{"name":"a"},{"name":"a"}]`, "group a stands twice"},
		{"replicas and keda", "full", `groups=[{"name":"a","replicas":1,"keda":{"max":2}}]`, "groups"},
		{"keda without monitoring", "minimal", `groups=[{"name":"a","keda":{"max":2}}]`, "nats.monitoring.endpoint"},
		{"keda upside down", "full", `groups=[{"name":"a","keda":{"min":3,"max":2}}]`, "keda.min 3"},
		{"killed while it drains", "full", `terminationGracePeriodSeconds=60`, "expected more than grace"},
		{"two copies", "full", `init.replicas=2`, "replicas"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if out, err := render(t, c.values, c.set); err == nil || !strings.Contains(out, c.want) {
				t.Errorf("got %v, want a refusal that says %q:\n%s", err, c.want, out)
			}
		})
	}
}

// object is as much of a manifest as is looked at.
type object struct {
	Kind     string
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Spec struct {
		Replicas *int
		Selector struct{ MatchLabels map[string]string }
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     pod
		}
		ScaleTargetRef  struct{ Name string }
		MinReplicaCount int
		MaxReplicaCount int
		Triggers        []struct {
			Type     string
			Metadata map[string]string
		}
	}
}

type pod struct {
	AutomountServiceAccountToken  *bool
	TerminationGracePeriodSeconds int
	SecurityContext               struct {
		RunAsNonRoot   bool
		RunAsUser      int
		FSGroup        int
		SeccompProfile struct{ Type string }
	}
	Containers []struct {
		Name            string
		Args            []string
		Command         []string
		Env             []struct{ Name, Value string }
		LivenessProbe   any
		ReadinessProbe  any
		SecurityContext struct {
			AllowPrivilegeEscalation *bool
			ReadOnlyRootFilesystem   bool
			Capabilities             struct{ Drop []string }
		}
		Resources struct {
			Requests, Limits map[string]string
		}
	}
	Volumes []map[string]any
}

// objects are what the chart makes of a file of values.
func objects(t *testing.T, values string) []object {
	t.Helper()
	text, err := render(t, values)
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, text)
	}
	var out []object
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var document any
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("what helm rendered: %v", err)
		}
		raw, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		var o object
		if err := json.Unmarshal(raw, &o); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if o.Kind != "" {
			out = append(out, o)
		}
	}
}

// No pod can do more than it needs, and each is given the time to drain.
func TestE2E_Chart_PodsAreConfined(t *testing.T) {
	t.Parallel()
	for _, values := range valueFiles {
		pods := 0
		for _, o := range objects(t, values) {
			spec := o.Spec.Template.Spec
			if len(spec.Containers) == 0 {
				continue
			}
			pods++
			if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
				t.Errorf("%s gets a token of the API server", o.Metadata.Name)
			}
			if s := spec.SecurityContext; !s.RunAsNonRoot || s.RunAsUser != 65532 || s.FSGroup != 65532 || s.SeccompProfile.Type != "RuntimeDefault" {
				t.Errorf("%s: security context %+v", o.Metadata.Name, s)
			}
			for _, v := range spec.Volumes {
				if _, host := v["hostPath"]; host {
					t.Errorf("%s sees its node's files", o.Metadata.Name)
				}
			}
			for _, c := range spec.Containers {
				s := c.SecurityContext
				if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
					t.Errorf("%s: container's security context %+v", o.Metadata.Name, s)
				}
				if c.Resources.Requests["memory"] == "" || c.Resources.Limits["memory"] == "" || c.Resources.Requests["cpu"] == "" {
					t.Errorf("%s: resources %+v", o.Metadata.Name, c.Resources)
				}
				if o.Kind == "Deployment" && (c.LivenessProbe == nil || c.ReadinessProbe == nil) {
					t.Errorf("%s has no probes", o.Metadata.Name)
				}
			}
		}
		if pods < 4 {
			t.Errorf("%s: %d pod templates, want init and three services at least", values, pods)
		}
	}
}

// KEDA asks for the queue that the mesh makes, and scales what serves it.
func TestE2E_Chart_ScalesOnTheGroupsQueue(t *testing.T) {
	t.Parallel()
	all := objects(t, "full")
	i := slices.IndexFunc(all, func(o object) bool { return o.Kind == "ScaledObject" })
	if i < 0 {
		t.Fatal("the values have a group with keda, the chart no ScaledObject")
	}
	scaled := all[i].Spec
	if len(scaled.Triggers) != 1 || scaled.Triggers[0].Type != "nats-jetstream" {
		t.Fatalf("triggers %+v", scaled.Triggers)
	}
	got := scaled.Triggers[0].Metadata
	want := map[string]string{"stream": crumbs.StreamToolCalls, "consumer": mesh.GroupConsumer("scripts"), "account": access.AccountCore, "natsServerMonitoringEndpoint": "nats-headless.nats.svc:8222"}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("trigger's %s is %q, want %q", key, got[key], value)
		}
	}
	i = slices.IndexFunc(all, func(o object) bool { return o.Kind == "Deployment" && o.Metadata.Name == scaled.ScaleTargetRef.Name })
	if i < 0 {
		t.Fatalf("no Deployment %s", scaled.ScaleTargetRef.Name)
	}
	if all[i].Spec.Replicas != nil {
		t.Error("the Deployment has replicas, which every upgrade would set against KEDA")
	}
}

// Every selector finds its own pods and no others.
func TestE2E_Chart_SelectorsAreDisjoint(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, o := range objects(t, "full") {
		if o.Kind != "Deployment" {
			continue
		}
		part := o.Spec.Selector.MatchLabels["app.kubernetes.io/component"]
		if other, ok := seen[part]; ok {
			t.Errorf("%s and %s select the same pods", o.Metadata.Name, other)
		}
		seen[part] = o.Metadata.Name
		for key, value := range o.Spec.Selector.MatchLabels {
			if o.Spec.Template.Metadata.Labels[key] != value {
				t.Errorf("%s does not select its own pods: %s", o.Metadata.Name, key)
			}
		}
	}
	if len(seen) != 5 {
		t.Errorf("got deployments %v, want three services and two groups", seen)
	}
}

// A worker of one's own has the probes and the grace of the services, unless it is
// said to have no probes.
func TestE2E_Chart_WorkersOfOnesOwn(t *testing.T) {
	t.Parallel()
	for probes, want := range map[string]bool{"": true, `,"probes":true`: true, `,"probes":false`: false} {
		text, err := render(t, "minimal", `groups=[{"name":"a","command":["/worker"]`+probes+`}]`)
		if err != nil {
			t.Fatalf("helm template: %v\n%s", err, text)
		}
		_, group, _ := strings.Cut(text, "# Source: crumbmesh/templates/groups.yaml\n")
		group, _, _ = strings.Cut(group, "# Source: ")
		for _, line := range []string{"path: /readyz", "path: /livez", "containerPort: 8480"} {
			if strings.Contains(group, line) != want {
				t.Errorf("with %q: %q there is %v, want %v\n%s", probes, line, !want, want, group)
			}
		}
		if !strings.Contains(group, "name: CRUMB_GRACE") {
			t.Errorf("with %q: it is not told its grace", probes)
		}
	}
}

// What the pods are told to run is what the binary takes, or worker.Serve: each gets
// as far as the server, which is not there.
func TestE2E_Chart_CommandLinesAreTheBinarys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	crumb, worker := filepath.Join(dir, "crumb"), filepath.Join(dir, "worker")
	for binary, from := range map[string]string{crumb: "./cmd/crumb", worker: "./examples/publisher/cmd/worker"} {
		build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, from)
		build.Dir = "../.."
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", from, err, out)
		}
	}
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "nkey"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "nkey", "seed"), seed, 0o600); err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("/etc/crumbmesh", dir, "/srv/project", "../../examples/publisher", ":8480", "127.0.0.1:0")
	seen := map[string]bool{}
	for _, o := range objects(t, "full") {
		for _, c := range o.Spec.Template.Spec.Containers {
			program := crumb
			if c.Command != nil { // a worker by worker.Serve, which reads no arguments
				program = worker
			}
			args := make([]string, len(c.Args))
			for i, a := range c.Args {
				args[i] = here.Replace(a)
			}
			seen[args[0]] = true
			run := exec.CommandContext(t.Context(), program, args...)
			run.Env = []string{"CRUMB_WAIT=1ms"}
			for _, e := range c.Env {
				switch {
				case e.Name == "NATS_URL":
					run.Env = append(run.Env, e.Name+"=nats://127.0.0.1:1")
				case strings.HasPrefix(e.Name, "OTEL_"), strings.HasPrefix(e.Name, "CRUMB_TLS_"), e.Value == "": // no collector, no certificates, no secrets here
				default:
					run.Env = append(run.Env, e.Name+"="+here.Replace(e.Value))
				}
			}
			out, err := run.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "UNAVAILABLE") || !strings.Contains(string(out), "127.0.0.1:1") {
				t.Errorf("%s: %s %s: %v, want no answer of the server\n%s", o.Metadata.Name, filepath.Base(program), strings.Join(args, " "), err, out)
			}
		}
	}
	for _, first := range []string{"init", "orchestrator", "modelgw", "approvals", "toolexec", "--verbose"} {
		if !seen[first] {
			t.Errorf("the chart never runs crumb, or a worker, with %s first", first)
		}
	}
}
