package worker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/embedded"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry/export"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

const (
	// envProgram makes the test binary a worker: plain, or with the exporters.
	envProgram = "WORKER_TEST_PROGRAM"
	// patience is how long a test in real time waits for what must happen.
	patience = 60 * time.Second
	askPause = 20 * time.Millisecond
)

func TestMain(m *testing.M) {
	if program := os.Getenv(envProgram); program != "" {
		os.Exit(serveDouble(program))
	}
	os.Exit(m.Run())
}

// doubling is the tool of the worker process.
func doubling() tool.Tool {
	return tool.Define("double", "Doubles.", func(ctx tool.Context, in input) (any, error) {
		ctx.Logger.Info("doubling", "n", in.N)
		return double(ctx, in)
	}, tool.Effect(crumbs.EffectPure))
}

// serveDouble is an author's main function.
func serveDouble(program string) int {
	var p worker.Program
	if program == "exporting" {
		p.Telemetry = export.Start
	}
	if err := p.Serve(context.Background(), doubling()); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	}
	return 0
}

// child is a worker process.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string   // of its log
	ended chan struct{} // Wait has returned
	err   error         // of Wait; after ended

	mu  sync.Mutex
	log strings.Builder
}

func startChild(t *testing.T, program string, environment ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(os.Args[0]), lines: make(chan string, 1000), ended: make(chan struct{})}
	c.cmd.Env = append([]string{envProgram + "=" + program, "PATH=" + os.Getenv("PATH"), "CRUMB_GROUP=" + group, "CRUMB_APPROVALS_PUBKEY=" + signed(t)}, environment...)
	errs, err := c.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		in := bufio.NewScanner(errs)
		for in.Scan() {
			c.mu.Lock()
			c.log.WriteString(in.Text() + "\n")
			c.mu.Unlock()
			c.lines <- in.Text()
		}
		c.err = c.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // most have ended
		<-c.ended
		if t.Failed() {
			t.Logf("the worker said:\n%s", c.said())
		}
	})
	return c
}

func (c *child) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.String()
}

// says waits for a line of the log and returns it.
func (c *child) says(text string) string {
	c.t.Helper()
	late := time.After(patience)
	for {
		select {
		case line := <-c.lines:
			if strings.Contains(line, text) {
				return line
			}
		case <-c.ended:
			c.t.Fatalf("it ended with %v before it said %q", c.err, text)
		case <-late:
			c.t.Fatalf("it does not say %q", text)
		}
	}
}

// exits waits for the end and returns the exit status.
func (c *child) exits() int {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(patience):
		c.t.Fatal("it does not end")
	}
	return c.cmd.ProcessState.ExitCode()
}

// get is a page of a worker: its status and text.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }() // read as far as wanted
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// becomes waits until /readyz answers with a status and a text in it, and wants
// /livez to be green meanwhile.
func becomes(t *testing.T, probes string, status int, text string) {
	t.Helper()
	for end := time.Now().Add(patience); ; <-time.After(askPause) {
		if code, body := get(t, probes+"/livez"); code != http.StatusOK {
			t.Fatalf("/livez: %d %s", code, body)
		}
		code, body := get(t, probes+"/readyz")
		if code == status && strings.Contains(body, text) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("/readyz: %d %q, want %d with %q", code, body, status, text)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // to be free
	return l.Addr().String()
}

// An author's worker that was started before NATS and before the topology waits for
// both and says so, serves once they are there, says on /readyz when it does not, and
// drains when it is told to stop. Its author wrote none of that.
func TestProgram_WaitsServesAndDrains(t *testing.T) {
	t.Parallel()
	meshtest.Real(t)
	address := freeAddress(t)
	c := startChild(t, "exporting", "NATS_URL=nats://"+address, "CRUMB_HTTP=127.0.0.1:0", "CRUMB_WAIT=10m", "CRUMB_LOG_FORMAT=json")
	var probes struct{ HTTP, Service string }
	if err := json.Unmarshal([]byte(c.says(`"probes"`)), &probes); err != nil || probes.Service != "toolexec-"+group {
		t.Fatalf("%+v, %v", probes, err)
	}
	c.says("waiting for NATS")
	becomes(t, probes.HTTP, http.StatusServiceUnavailable, "UNAVAILABLE: cannot reach NATS at nats://"+address)

	_, port, _ := net.SplitHostPort(address)
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	store := t.TempDir()
	start := func() *embedded.Server {
		t.Helper()
		s, err := embedded.Start(embedded.Config{Store: store, Port: number})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Stop)
		return s
	}
	server := start()
	c.says("waiting for the topology")
	becomes(t, probes.HTTP, http.StatusServiceUnavailable, "TOPOLOGY_MISSING")

	conn, err := mesh.Connect(t.Context(), mesh.ConnectConfig{Server: server.URL(), Name: "test", Settings: mesh.DevSettings()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if err := conn.Ensure(t.Context(), mesh.Topology{Groups: map[string]int{group: 0}}); err != nil {
		t.Fatal(err)
	}
	c.says(`"ready"`)
	becomes(t, probes.HTTP, http.StatusOK, "ok")
	l := &lab{Mesh: &meshtest.Mesh{Conn: conn}, t: t, results: make(chan crumbs.ToolResult, 1)}
	l.readResults()
	t.Cleanup(func() {
		for _, stop := range l.stops {
			stop()
		}
	})
	l.send(call(t, doubling(), `{"n":21}`))
	if r := l.result(); r.Status != crumbs.StatusOK || string(r.Result) != "42" {
		t.Errorf("result %+v", r)
	}
	if code, page := get(t, probes.HTTP+"/metrics"); code != http.StatusOK || !strings.Contains(page, `crumbmesh_tool_duration_seconds_count{group="research"`) {
		t.Errorf("/metrics: %d\n%s", code, page)
	}

	server.Stop()
	becomes(t, probes.HTTP, http.StatusServiceUnavailable, "UNAVAILABLE")
	start()
	becomes(t, probes.HTTP, http.StatusOK, "ok")

	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.says("draining")
	if status := c.exits(); status != 0 {
		t.Errorf("it was told to stop and ends with %d", status)
	}
}

// A worker without exporters has no metrics and says what would bring them when the
// environment asks for some; it gives up waiting with what it waited for.
func TestProgram_WithoutExporters(t *testing.T) {
	t.Parallel()
	c := startChild(t, "plain", "NATS_URL=nats://"+freeAddress(t), "CRUMB_HTTP=127.0.0.1:0", "CRUMB_WAIT=10m", "CRUMB_LOG_FORMAT=json",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1")
	if line := c.says("export.Start"); !strings.Contains(line, "OTEL_EXPORTER_OTLP_ENDPOINT") {
		t.Error(line)
	}
	var probes struct{ HTTP string }
	if err := json.Unmarshal([]byte(c.says(`"probes"`)), &probes); err != nil {
		t.Fatal(err)
	}
	if code, body := get(t, probes.HTTP+"/metrics"); code != http.StatusNotFound {
		t.Errorf("/metrics: %d %s", code, body)
	}
	c.says("waiting for NATS")
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := c.exits(); status != 0 {
		t.Errorf("it was told to stop while it waited and ends with %d", status)
	}
}

// What waiting cannot mend ends the process at once, naming what is wrong.
func TestProgram_Refusals(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() }) // nobody uses it
	for _, c := range []struct {
		name     string
		variable string
		code     fault.Code
		want     string
	}{
		{"a variable that is none", "CRUMB_PORT=8480", fault.InvalidConfig, "CRUMB_PORT is no setting of a worker"},
		{"an address that is none", "CRUMB_HTTP=8480", fault.InvalidConfig, `CRUMB_HTTP "8480": expected HOST:PORT`},
		{"an address that is taken", "CRUMB_HTTP=" + taken.Addr().String(), fault.InvalidConfig, "choose another address"},
		{"a protocol that is not spoken", "OTEL_TRACES_EXPORTER=zipkin", fault.InvalidConfig, "OTEL_TRACES_EXPORTER"},
		{"nobody to wait for any longer", "CRUMB_WAIT=1ms", fault.Unavailable, "cannot reach NATS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := startChild(t, "exporting", "NATS_URL=nats://"+freeAddress(t), c.variable)
			if status := w.exits(); status != 1 || !strings.Contains(w.said(), "worker: "+string(c.code)) || !strings.Contains(w.said(), c.want) {
				t.Errorf("status %d, want %s with %q", status, c.code, c.want)
			}
		})
	}
}
