package meshtest

import (
	"net"
	"sync"
)

// Gate is a network, or a stopped process, that keeps back all that its
// connections send while it is shut, and delivers it late. The zero Gate is open.
type Gate struct {
	mu    sync.Mutex
	shut  bool
	conns []*gated
}

type gated struct {
	net.Conn
	gate *Gate
	held []byte
}

// Wrap puts a client's connection behind the gate.
func (g *Gate) Wrap(conn net.Conn) net.Conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := &gated{Conn: conn, gate: g}
	g.conns = append(g.conns, c)
	return c
}

// Shut holds everything from now on.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

// Open delivers what was held, in order, and lets everything pass. A connection
// that was closed meanwhile loses what it had sent.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
	for _, c := range g.conns {
		_, _ = c.Conn.Write(c.held)
		c.held = nil
	}
}

// Write holds p or passes it on.
func (c *gated) Write(p []byte) (int, error) {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	if c.gate.shut {
		c.held = append(c.held, p...)
		return len(p), nil
	}
	return c.Conn.Write(p)
}
