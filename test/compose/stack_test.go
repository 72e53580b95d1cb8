//go:build e2e

package compose_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
)

const (
	patience = 90 * time.Second // for a loaded machine; nothing here takes a tenth of it
	interval = 200 * time.Millisecond

	natsConfig = "/etc/nats/nats.conf"
)

// binaries are what the images hold: their entrypoints by image.
type binaries map[string]string

// entrypoints builds what the Dockerfile puts into the images.
func entrypoints(t *testing.T) binaries {
	t.Helper()
	server := os.Getenv("NATS_SERVER")
	if server == "" {
		t.Fatal("NATS_SERVER names no nats-server; run `make test-all`, which builds it")
	}
	dir := t.TempDir()
	for name, from := range map[string]string{"crumb": "./cmd/crumb", "publisher": "./examples/publisher/cmd/worker"} {
		build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, name), from)
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
	crumb := filepath.Join(dir, "crumb")
	return binaries{"nats:": server, "crumbmesh": crumb, "crumbmesh/toolexec": crumb, "crumbmesh/publisher": filepath.Join(dir, "publisher")}
}

func (b binaries) of(image string) (string, bool) {
	if strings.HasPrefix(image, "nats:") {
		image = "nats:"
	}
	path, ok := b[image]
	return path, ok
}

// stack starts services of a compose file as processes of this machine.
type stack struct {
	t        *testing.T
	binaries binaries
	dir      string            // stands for the volumes
	ports    map[string]string // where host:port of the file is here

	started map[string][]*container
}

func newStack(t *testing.T) *stack {
	t.Helper()
	s := &stack{t: t, binaries: entrypoints(t), dir: t.TempDir(), ports: map[string]string{}, started: map[string][]*container{}}
	for _, node := range nodes {
		for _, port := range []string{"4222", "6222", "8222"} {
			s.ports[node+":"+port] = freeAddress(t)
		}
	}
	return s
}

// Ports that no system gives to connections that go out: a server that is started again
// finds its port free.
const (
	portMin = 10000
	portMax = 32000
)

// freeAddress is an address of the loopback that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", portMin+rand.IntN(portMax-portMin)))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}
}

// container is a process in the place of one.
type container struct {
	name   string
	cmd    *exec.Cmd
	health func(context.Context) error // nil: none is asked for
	ended  chan struct{}
	err    error // of Wait; after ended

	mu  sync.Mutex
	log bytes.Buffer
}

func (c *container) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(p)
}

func (c *container) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.String()
}

// up starts a service, and what it depends on before it, as the file's conditions
// say. Scale is how many of it.
func (s *stack) up(p *types.Project, name string, scale int) {
	s.t.Helper()
	service, ok := p.Services[name]
	if !ok {
		s.t.Fatalf("compose.yaml has no service %s", name)
	}
	for _, need := range slices.Sorted(mapKeys(service.DependsOn)) {
		if len(s.started[need]) == 0 {
			s.up(p, need, 1)
		}
	}
	for _, need := range slices.Sorted(mapKeys(service.DependsOn)) {
		switch condition := service.DependsOn[need].Condition; condition {
		case types.ServiceConditionHealthy:
			s.healthy(need)
		case types.ServiceConditionCompletedSuccessfully:
			s.completed(p, need)
		default:
			s.t.Fatalf("%s depends on %s: condition %s is not known here", name, need, condition)
		}
	}
	for n := range scale {
		s.started[name] = append(s.started[name], s.start(service, n))
	}
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// start starts one container of a service.
func (s *stack) start(service types.ServiceConfig, n int) *container {
	s.t.Helper()
	program, ok := s.binaries.of(service.Image)
	if !ok {
		s.t.Fatalf("%s: image %s holds nothing that runs here", service.Name, service.Image)
	}
	here := s.places(service)
	args := make([]string, len(service.Command))
	for i, a := range service.Command {
		args[i] = here.Replace(a)
	}
	c := &container{name: fmt.Sprintf("%s-%d", service.Name, n+1), ended: make(chan struct{})}
	c.cmd = exec.Command(program, args...)
	c.cmd.Stdout, c.cmd.Stderr = c, c
	c.cmd.Dir = s.home(service)
	c.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir}
	for key, value := range service.Environment {
		if value != nil && !strings.HasPrefix(key, "OTEL_") { // there is no collector
			c.cmd.Env = append(c.cmd.Env, key+"="+here.Replace(*value))
		}
	}
	c.health = s.check(service, c.cmd.Env)
	if err := c.cmd.Start(); err != nil {
		s.t.Fatalf("%s: %v", c.name, err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	s.t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // most have ended
		<-c.ended
		if s.t.Failed() {
			s.t.Logf("%s said:\n%s", c.name, c.said())
		}
	})
	return c
}

// places puts this machine's paths and addresses in the place of a container's.
func (s *stack) places(service types.ServiceConfig) *strings.Replacer {
	s.t.Helper()
	var pairs []string
	for there, here := range s.ports {
		pairs = append(pairs, there, here)
	}
	for _, v := range service.Volumes {
		switch {
		case v.Target == natsConfig:
			pairs = append(pairs, v.Target, s.configure(service.Name, v.Source))
		case v.Type == types.VolumeTypeBind:
			pairs = append(pairs, v.Target, v.Source)
		default:
			pairs = append(pairs, v.Target, s.volume(v.Source))
		}
	}
	if address := service.Environment["CRUMB_HTTP"]; address != nil {
		pairs = append(pairs, *address, freeAddress(s.t))
	}
	return strings.NewReplacer(pairs...)
}

// volume is the folder that stands for a named volume.
func (s *stack) volume(name string) string {
	s.t.Helper()
	dir := filepath.Join(s.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	return dir
}

// home is the working directory that the image gives a service; the one of the
// publisher's worker has a document in it.
func (s *stack) home(service types.ServiceConfig) string {
	s.t.Helper()
	if service.Image != "crumbmesh/publisher" {
		return s.dir
	}
	dir := s.volume("published")
	text, err := os.ReadFile(filepath.Join(root, "examples/publisher/README.md"))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), text, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return dir
}

// configure is a NATS configuration with a node's own ports and folder.
func (s *stack) configure(node, source string) string {
	s.t.Helper()
	text, err := os.ReadFile(source)
	if err != nil {
		s.t.Fatal(err)
	}
	var pairs []string
	for there, here := range s.ports {
		pairs = append(pairs, there, here)
	}
	local := func(port string) string { return "\"" + s.ports[node+":"+port] + "\"" }
	pairs = append(pairs, "port: 4222", "listen: "+local("4222"), "http: 8222", "http: "+local("8222"), "port: 6222", "listen: "+local("6222"),
		"store_dir: /data", "store_dir: \""+s.volume(node)+"\"")
	file := filepath.Join(s.dir, node+".conf")
	if err := os.WriteFile(file, []byte(strings.NewReplacer(pairs...).Replace(string(text))), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// check is a service's health check, run here: the same command, or the same page
// where the image's own program asks for it.
func (s *stack) check(service types.ServiceConfig, env []string) func(context.Context) error {
	s.t.Helper()
	if service.HealthCheck == nil || service.HealthCheck.Disable {
		return nil
	}
	test := service.HealthCheck.Test
	switch {
	case len(test) == 3 && test[1] == "/usr/local/bin/crumb":
		return func(ctx context.Context) error {
			c := exec.CommandContext(ctx, s.binaries["crumbmesh"], test[2])
			c.Env = env
			out, err := c.CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		}
	case len(test) > 2 && test[1] == "wget":
		url := strings.Replace(test[len(test)-1], "127.0.0.1:8222", s.ports[service.Name+":8222"], 1)
		return func(ctx context.Context) error { return page(ctx, url) }
	}
	s.t.Fatalf("%s: health check %v is not known here", service.Name, test)
	return nil
}

func page(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}

// healthy waits until every container of a service is.
func (s *stack) healthy(name string) {
	s.t.Helper()
	for _, c := range s.started[name] {
		if c.health == nil {
			s.t.Fatalf("%s has no health check", name)
		}
		s.await(c, c.name+" is healthy", c.health)
	}
}

// await asks again and again, as a container engine does, until c answers well.
func (s *stack) await(c *container, what string, check func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-c.ended:
			s.t.Fatalf("waited until %s; it ended: %v\n%s", what, c.err, c.said())
		case <-ctx.Done():
			s.t.Fatalf("waited until %s: %v", what, err)
		}
	}
}

// completed waits until a one-shot has ended well, which is started again on failure
// as often as the file says.
func (s *stack) completed(p *types.Project, name string) {
	s.t.Helper()
	service := p.Services[name]
	var again int
	if policy, times, ok := strings.Cut(service.Restart, ":"); ok && policy == "on-failure" {
		var err error
		if again, err = strconv.Atoi(times); err != nil {
			s.t.Fatalf("%s: restart %s: %v", name, service.Restart, err)
		}
	}
	for {
		all := s.started[name]
		c := all[len(all)-1]
		select {
		case <-c.ended:
		case <-time.After(patience):
			s.t.Fatalf("%s does not end:\n%s", c.name, c.said())
		}
		if c.err == nil {
			return
		}
		if len(all) > again {
			s.t.Fatalf("%s: %v\n%s", c.name, c.err, c.said())
		}
		s.started[name] = append(all, s.start(service, len(all)))
	}
}

// line waits until a service has said a word and returns the line.
func (s *stack) line(name, word string) string {
	s.t.Helper()
	c := s.started[name][0]
	var found string
	s.await(c, c.name+" says "+word, func(context.Context) error {
		for line := range strings.Lines(c.said()) {
			if strings.Contains(line, word) {
				found = line
				return nil
			}
		}
		return errors.New("not said yet")
	})
	return found
}

// lose forgets stopped services and what their servers stored.
func (s *stack) lose(names ...string) {
	s.t.Helper()
	for _, name := range names {
		delete(s.started, name)
		if slices.Contains(nodes, name) {
			if err := os.RemoveAll(s.volume(name)); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// down stops services as `docker compose stop` does, and wants each to end well
// within its time.
func (s *stack) down(p *types.Project, names ...string) {
	s.t.Helper()
	for _, name := range names {
		for _, c := range s.started[name] {
			if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				s.t.Errorf("stop %s: %v", c.name, err)
			}
		}
	}
	for _, name := range names {
		for _, c := range s.started[name] {
			select {
			case <-c.ended:
				if c.err != nil {
					s.t.Errorf("%s was told to stop and ended with %v:\n%s", c.name, c.err, c.said())
				}
			case <-time.After(time.Duration(*p.Services[name].StopGracePeriod)):
				s.t.Errorf("%s did not end in its stop_grace_period", c.name)
			}
		}
	}
}
