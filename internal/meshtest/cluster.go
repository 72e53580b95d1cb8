package meshtest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Bounds of a cluster in one process.
const (
	nodes         = 3
	clusterReady  = 30 * time.Second
	clusterPoll   = 20 * time.Millisecond
	clusterMemory = 1 << 30
	clusterStore  = 64 << 30
)

// StartCluster starts a mesh on three servers with three replicas of every
// stream. Each connection goes to another server in turn. It needs real time.
func StartCluster(t testing.TB, opts ...Option) *Mesh {
	t.Helper()
	o := newOptions(opts)
	o.settings.Replicas = nodes
	m := &Mesh{settings: o.settings, log: o.log, t: t}
	alone.enterReal()
	t.Cleanup(alone.leaveReal)
	ports, routes := freePorts(t)
	for i := range nodes {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("node%d", i), Host: "127.0.0.1", Port: -1,
			JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
			JetStreamMaxMemory: clusterMemory, JetStreamMaxStore: clusterStore,
			Cluster: server.ClusterOpts{Name: "cluster", Host: "127.0.0.1", Port: ports[i]}, Routes: routes,
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		m.nodes = append(m.nodes, s)
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	}
	m.wait("a leader of the cluster", m.formed)
	m.begin(o)
	return m
}

func freePorts(t testing.TB) (ports []int, routes []*url.URL) {
	t.Helper()
	for range nodes {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }() // all three are held until all are known
		port := l.Addr().(*net.TCPAddr).Port
		ports = append(ports, port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	return ports, routes
}

func (m *Mesh) formed() bool {
	leader := false
	for _, s := range m.nodes {
		if !s.JetStreamIsCurrent() {
			return false
		}
		leader = leader || s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == nodes
	}
	return leader
}

func (m *Mesh) wait(what string, holds func() bool) {
	m.t.Helper()
	for end := time.Now().Add(clusterReady); time.Now().Before(end); <-time.After(clusterPoll) {
		if holds() {
			return
		}
	}
	m.t.Fatalf("%s did not come within %s", what, clusterReady)
}

// StepDown makes the leader of a stream hand over. A refusal (there is no leader
// right now) is no failure of the test.
func (m *Mesh) StepDown(stream string) error {
	ctx, cancel := context.WithTimeout(context.Background(), clusterReady)
	defer cancel()
	_, err := m.Conn.NATS.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil)
	return err
}
