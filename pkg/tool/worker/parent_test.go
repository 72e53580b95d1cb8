package worker_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/embedded"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

// A worker whose standard error nobody reads any more finishes its calls: a log line is
// lost, not the process. It drains once whoever started it is gone, which it knows by
// the end of its standard input, not by what comes there.
func TestProgram_OutlivesItsReaderButNotItsParent(t *testing.T) {
	t.Parallel()
	meshtest.Real(t)
	server, err := embedded.Start(embedded.Config{Store: t.TempDir(), Port: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	conn, err := mesh.Connect(t.Context(), mesh.ConnectConfig{Server: server.URL(), Name: "test", Settings: mesh.DevSettings()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if err := conn.Ensure(t.Context(), mesh.Topology{Groups: map[string]int{group: 0}}); err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{envProgram + "=plain", "PATH=" + os.Getenv("PATH"), "CRUMB_GROUP=" + group, "CRUMB_APPROVALS_PUBKEY=" + signed(t),
		"NATS_URL=" + server.URL(), "CRUMB_PARENT=stdin"}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = theirs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()                           // the worker has its own
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // has ended already, unless the test failed
	for in := bufio.NewScanner(log); ; {
		if !in.Scan() {
			t.Fatal("it ended before it was ready")
		}
		if strings.Contains(in.Text(), "msg=ready") {
			break
		}
	}
	if err := log.Close(); err != nil { // nobody reads what it says
		t.Fatal(err)
	}
	if _, err := stdin.Write([]byte("not the end\n")); err != nil {
		t.Fatal(err)
	}
	l := &lab{Mesh: &meshtest.Mesh{Conn: conn}, t: t, results: make(chan crumbs.ToolResult, 1)}
	l.readResults()
	t.Cleanup(func() {
		for _, stop := range l.stops {
			stop()
		}
	})
	l.send(call(t, doubling(), `{"n":21}`))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case r := <-l.results:
		if r.Status != crumbs.StatusOK || string(r.Result) != "42" {
			t.Errorf("result %+v", r)
		}
	case err := <-ended:
		t.Fatalf("it ended in the middle of a call: %v", err)
	case <-time.After(patience):
		t.Fatal("no result")
	}

	if err := stdin.Close(); err != nil { // as the system does when its parent is killed
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("its parent is gone and it ends with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("its parent is gone and it goes on")
	}
}

// Where standard input is no pipe, as of a background job of a shell, its end says
// nothing, and a worker that is told to watch it serves.
func TestProgram_NoPipeNoParent(t *testing.T) {
	t.Parallel()
	c := startChild(t, "plain", "NATS_URL=nats://"+freeAddress(t), "CRUMB_HTTP=127.0.0.1:0", "CRUMB_WAIT=10m", "CRUMB_LOG_FORMAT=json", "CRUMB_PARENT=stdin")
	var probes struct{ HTTP string }
	if err := json.Unmarshal([]byte(c.says(`"probes"`)), &probes); err != nil {
		t.Fatal(err)
	}
	c.says("waiting for NATS")
	becomes(t, probes.HTTP, 503, "UNAVAILABLE: cannot reach NATS")
	if strings.Contains(c.said(), "draining") {
		t.Error(c.said())
	}
}

// What CRUMB_PARENT may be is said.
func TestFromEnvironment_Parent(t *testing.T) {
	t.Parallel()
	_, err := worker.FromEnvironment([]string{"CRUMB_GROUP=a", "CRUMB_APPROVALS_PUBKEY=" + signed(t), "CRUMB_PARENT=7"})
	if fault.CodeOf(err) != fault.InvalidConfig || !strings.Contains(err.Error(), `CRUMB_PARENT: expected stdin, got "7"`) {
		t.Error(err)
	}
}
