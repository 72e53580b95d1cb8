package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/mesh/embedded"
)

// site is the NATS that a place stands on.
type site interface {
	// entrance is where the next connection goes.
	entrance() nats.InProcessConnProvider
	URL() string
	Stop()
}

// storage is how NATS keeps what it acknowledges.
type storage struct {
	nodes  int  // 1, or a cluster with so many copies of each stream
	always bool // fsync before each acknowledgement, instead of every two minutes
}

func (s storage) String() string {
	name := fmt.Sprintf("R%d", s.nodes)
	if s.always {
		name += ", sync always"
	}
	return name
}

// newSite starts the servers below dir. port is that of a single server's listener.
func newSite(dir string, port int, s storage) (site, error) {
	if s.nodes <= 1 && !s.always {
		one, err := embedded.Start(embedded.Config{Store: dir, Port: port})
		return single{one}, err
	}
	return newCluster(dir, s)
}

type single struct{ *embedded.Server }

func (s single) entrance() nats.InProcessConnProvider { return s.Server }

// cluster is some servers in this process.
type cluster struct {
	nodes []*server.Server
	next  int
}

const (
	clusterReady  = 30 * time.Second
	clusterLook   = 20 * time.Millisecond
	clusterStore  = 64 << 30
	clusterMemory = 1 << 30
)

func newCluster(dir string, s storage) (*cluster, error) {
	ports, routes, err := freePorts(s.nodes)
	if err != nil {
		return nil, err
	}
	c := &cluster{}
	for i := range s.nodes {
		o := &server.Options{
			ServerName: "node" + strconv.Itoa(i), Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: filepath.Join(dir, strconv.Itoa(i)),
			NoSigs: true, NoLog: true, JetStreamMaxMemory: clusterMemory, JetStreamMaxStore: clusterStore, SyncAlways: s.always,
		}
		if s.nodes > 1 {
			o.Cluster, o.Routes = server.ClusterOpts{Name: "bench", Host: "127.0.0.1", Port: ports[i]}, routes
		}
		node, err := server.NewServer(o)
		if err != nil {
			c.Stop()
			return nil, err
		}
		node.Start()
		c.nodes = append(c.nodes, node)
	}
	for end := time.Now().Add(clusterReady); !c.formed(); <-time.After(clusterLook) {
		if time.Now().After(end) {
			c.Stop()
			return nil, errors.New("the cluster did not form")
		}
	}
	return c, nil
}

// freePorts are those of the routes; all are held until all are known.
func freePorts(n int) (ports []int, routes []*url.URL, err error) {
	for range n {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, err
		}
		defer func() { _ = l.Close() }() // only its number was wanted
		port := l.Addr().(*net.TCPAddr).Port
		ports = append(ports, port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: "127.0.0.1:" + strconv.Itoa(port)})
	}
	return ports, routes, nil
}

func (c *cluster) formed() bool {
	if len(c.nodes) == 1 {
		return c.nodes[0].ReadyForConnections(clusterLook)
	}
	leader := false
	for _, n := range c.nodes {
		if !n.JetStreamIsCurrent() {
			return false
		}
		leader = leader || n.JetStreamIsLeader() && len(n.JetStreamClusterPeers()) == len(c.nodes)
	}
	return leader
}

func (c *cluster) entrance() nats.InProcessConnProvider {
	c.next++
	return c.nodes[c.next%len(c.nodes)]
}

func (c *cluster) URL() string { return c.nodes[0].ClientURL() }

func (c *cluster) Stop() {
	for _, n := range c.nodes {
		n.Shutdown()
		n.WaitForShutdown()
	}
}
