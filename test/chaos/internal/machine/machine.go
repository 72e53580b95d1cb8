package machine

import (
	"errors"
	"net"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
)

// Machine starts processes and remembers how they ended.
type Machine struct {
	logs   string
	starts chan start
	quit   chan struct{}

	mu    sync.Mutex
	slots []*Process
	exits []Exit
	err   error
}

type start struct {
	cmd *exec.Cmd
	err chan error
}

// New returns a machine whose processes write to files of the folder logs.
func New(logs string) *Machine {
	m := &Machine{logs: logs, starts: make(chan start), quit: make(chan struct{})}
	go m.loop()
	return m
}

// loop starts all processes from one thread that lives as long as the machine:
// the kernel kills them when that thread ends.
func (m *Machine) loop() {
	runtime.LockOSThread()
	for {
		select {
		case s := <-m.starts:
			s.err <- s.cmd.Start()
		case <-m.quit:
			return
		}
	}
}

func (m *Machine) spawn(cmd *exec.Cmd) error {
	s := start{cmd, make(chan error)}
	select {
	case m.starts <- s:
		return <-s.err
	case <-m.quit:
		return errors.New("the machine is down")
	}
}

// Keep starts a process and starts it again whenever it ends.
func (m *Machine) Keep(c Command) *Process {
	p := &Process{Command: c, machine: m, done: make(chan struct{})}
	m.mu.Lock()
	m.slots = append(m.slots, p)
	m.mu.Unlock()
	go p.keep()
	return p
}

func (m *Machine) ended(e Exit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.exits = append(m.exits, e)
}

func (m *Machine) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = errors.Join(m.err, err)
}

// Exits are the ends of processes so far, and what kept one from starting.
func (m *Machine) Exits() ([]Exit, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Exit(nil), m.exits...), m.err
}

// Stop stops every process, the last started first.
func (m *Machine) Stop() {
	m.mu.Lock()
	slots := m.slots
	m.mu.Unlock()
	for i := len(slots) - 1; i >= 0; i-- {
		slots[i].Stop()
	}
	close(m.quit)
}

// FreePort is a port of the loopback that nobody listens on.
func FreePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}
