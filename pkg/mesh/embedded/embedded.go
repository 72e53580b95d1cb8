// Package embedded runs a nats-server with file JetStream in this process: what
// `crumb dev`, `crumb demo` and tests stand on. Production uses a cluster.
package embedded

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

const (
	readyTimeout   = 10 * time.Second
	storeBytesMax  = 64 << 30
	memoryBytesMax = 1 << 30
)

// Config describes the server.
type Config struct {
	Store string // folder of the streams; one server a folder
	Host  string // 127.0.0.1 when empty
	Port  int    // 0: no listener, in-process connections only; -1: any free port
}

// Server is a running nats-server. It can be connected to in process.
type Server struct {
	nats *server.Server
}

// Start starts a server. It fails with INVALID_CONFIG when the port is taken or
// the folder cannot be used.
func Start(cfg Config) (*Server, error) {
	if cfg.Host == "" {
		cfg.Host = "127.0.0.1"
	}
	if cfg.Port > 0 {
		if err := free(cfg.Host, cfg.Port); err != nil {
			return nil, err
		}
	}
	s, err := server.NewServer(&server.Options{
		ServerName: "crumbmesh-embedded", Host: cfg.Host, Port: cfg.Port, DontListen: cfg.Port == 0,
		JetStream: true, StoreDir: cfg.Store, NoSigs: true, NoLog: true,
		JetStreamMaxMemory: memoryBytesMax, JetStreamMaxStore: storeBytesMax,
	})
	if err != nil {
		return nil, fault.Wrap(fault.InvalidConfig, err, "embedded nats-server: %v", err)
	}
	s.Start()
	if !s.ReadyForConnections(readyTimeout) {
		s.Shutdown()
		return nil, fault.New(fault.Unavailable, "embedded nats-server in %s did not start within %s", cfg.Store, readyTimeout)
	}
	return &Server{nats: s}, nil
}

func free(host string, port int) error {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return fault.New(fault.InvalidConfig, "port %d on %s is taken; is another mesh running? choose one with --port", port, host)
	}
	if err := l.Close(); err != nil {
		return fault.From(fmt.Errorf("close probe: %w", err))
	}
	return nil
}

// InProcessConn lets nats.InProcessServer connect without a socket.
func (s *Server) InProcessConn() (net.Conn, error) { return s.nats.InProcessConn() }

// URL is where clients reach the server, "" without a listener.
func (s *Server) URL() string { return s.nats.ClientURL() }

// Stop shuts the server down and waits until its files are closed.
func (s *Server) Stop() {
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
}
