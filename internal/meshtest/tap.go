package meshtest

import (
	"bytes"
	"net"
	"strconv"
	"strings"
	"sync"
)

// Verdict is what becomes of a message on its way to the server.
type Verdict int

// The verdicts of a Tap.
const (
	Pass Verdict = iota
	Drop         // the server never sees it; its publisher times out
	Mute         // the server takes it, its answer reaches nobody
)

// Tap is asked about each message that a connection publishes, acks and requests
// to JetStream included, before the server sees it. It must not block.
type Tap func(subject string) Verdict

// Wire changes what a connection sends; Tap and Gate are wires.
type Wire interface{ Wrap(net.Conn) net.Conn }

// lost is where the answers of muted messages go.
const lost = "_LOST"

// Wrap puts the tap on a client's connection to a server.
func (t Tap) Wrap(conn net.Conn) net.Conn { return &tapped{Conn: conn, tap: t} }

type tapped struct {
	net.Conn
	tap Tap

	mu      sync.Mutex
	pending []byte // an operation that is not complete yet
}

// Write passes whole operations of the NATS protocol on.
func (c *tapped) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = append(c.pending, p...)
	var out []byte
	for {
		line, n := operation(c.pending)
		if n == 0 || n > len(c.pending) {
			break
		}
		out = append(out, c.judge(line, c.pending[:n])...)
		c.pending = c.pending[n:]
	}
	if len(out) == 0 {
		return len(p), nil
	}
	if _, err := c.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// operation returns the first control line and how many bytes it has with its
// payload; 0 when the line is not complete.
func operation(b []byte) (line string, n int) {
	end := bytes.Index(b, []byte("\r\n"))
	if end < 0 {
		return "", 0
	}
	line, n = string(b[:end]), end+2
	if !publishes(line) {
		return line, n
	}
	size, err := strconv.Atoi(line[strings.LastIndexByte(line, ' ')+1:])
	if err != nil {
		panic("meshtest: not the NATS protocol: " + line)
	}
	return line, n + size + 2
}

func publishes(line string) bool {
	return strings.HasPrefix(line, "PUB ") || strings.HasPrefix(line, "HPUB ")
}

// judge returns what the server gets of an operation.
func (c *tapped) judge(line string, whole []byte) []byte {
	if !publishes(line) {
		return whole
	}
	fields := strings.Fields(line)
	switch c.tap(fields[1]) {
	case Drop:
		return nil
	case Mute:
		plain := 3 // of a line without a reply subject
		if fields[0] == "HPUB" {
			plain++
		}
		if len(fields) == plain {
			return whole
		}
		fields[2] = lost
		return append([]byte(strings.Join(fields, " ")), whole[len(line):]...)
	}
	return whole
}
