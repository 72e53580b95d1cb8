package machine

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	restartPause = 20 * time.Millisecond // between the end of a process and the next
	selfPause    = time.Second           // the same after it ended by itself
	stopMax      = 45 * time.Second      // a stop may take; then it is killed
	startMax     = 15 * time.Second      // a restart waits for the next process to serve
	readyPoll    = 50 * time.Millisecond
	readyAsk     = time.Second
)

// How an end was asked for.
const (
	AskedKill = "kill"
	AskedTerm = "term"
)

// Command says how a process is started.
type Command struct {
	Name  string   // of the slot: one process at a time, started again when it ends
	Args  []string // the program first
	Env   []string // beside the machine's own
	Ready string   // URL that answers 200 when it serves; "": it has none
}

// Exit is the end of a process.
type Exit struct {
	Process string // <name>.<n>: the nth of its slot
	Asked   string // AskedKill, AskedTerm; "" when nobody did
	Status  string
	Clean   bool
	At      time.Time
}

// Process is a slot of the machine.
type Process struct {
	Command
	machine *Machine
	done    chan struct{} // the slot is given up

	mu      sync.Mutex
	nth     int
	cmd     *exec.Cmd     // running now; nil in between
	ended   chan struct{} // closed when cmd has
	asked   string
	stay    time.Duration // away after the end that was asked for
	stopped bool
}

// keep runs the process again and again until the slot is given up.
func (p *Process) keep() {
	defer close(p.done)
	for {
		cmd, ended, ok := p.begin()
		if !ok {
			return
		}
		err := cmd.Wait()
		if pause, again := p.end(cmd, ended, err); again {
			<-time.After(pause)
			continue
		}
		return
	}
}

func (p *Process) begin() (*exec.Cmd, chan struct{}, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil, nil, false
	}
	p.nth++
	name := p.current()
	log, err := os.Create(filepath.Join(p.machine.logs, name+".log"))
	if err != nil {
		p.machine.fail(err)
		return nil, nil, false
	}
	cmd := exec.Command(p.Args[0], p.Args[1:]...)
	cmd.Env = append(append(os.Environ(), p.Env...), "CHAOS_NAME="+name)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes()
	err = p.machine.spawn(cmd)
	_ = log.Close() // the process has its own
	if err != nil {
		p.machine.fail(fmt.Errorf("start %s: %w", name, err))
		return nil, nil, false
	}
	p.cmd, p.ended, p.asked, p.stay = cmd, make(chan struct{}), "", 0
	return cmd, p.ended, true
}

func (p *Process) end(cmd *exec.Cmd, ended chan struct{}, err error) (pause time.Duration, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	exit := Exit{Process: p.current(), Asked: p.asked, Status: cmd.ProcessState.String(), Clean: err == nil, At: time.Now()}
	p.machine.ended(exit)
	p.cmd = nil
	close(ended)
	pause = max(restartPause, p.stay)
	if exit.Asked == "" {
		pause = selfPause
	}
	return pause, !p.stopped
}

// current is the name of the nth process; the caller holds mu.
func (p *Process) current() string { return fmt.Sprintf("%s.%d", p.Name, p.nth) }

// signal sends a signal to the running process and returns its name and its end;
// ok is false when none runs.
func (p *Process) signal(s syscall.Signal, asked string, stay time.Duration) (name string, ended <-chan struct{}, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return "", nil, false
	}
	if asked != "" {
		p.asked, p.stay = asked, stay
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		return "", nil, false
	}
	return p.current(), p.ended, true
}

// Kill ends the process as the kernel does when memory is short; another one is
// started after stay. It returns the name of the process, "" when none ran.
func (p *Process) Kill(stay time.Duration) string {
	name, ended, ok := p.signal(syscall.SIGKILL, AskedKill, stay)
	if ok {
		<-ended
	}
	return name
}

// Pause stops the process for a while, as a machine that hangs does. It returns
// the name of the process, "" when none ran.
func (p *Process) Pause(ctx context.Context, d time.Duration) string {
	name, ended, ok := p.signal(syscall.SIGSTOP, "", 0)
	if !ok {
		return ""
	}
	select {
	case <-time.After(d):
	case <-ended:
		return name
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && p.current() == name {
		_ = p.cmd.Process.Signal(syscall.SIGCONT) // it may just have ended
	}
	return name
}

// Restart tells the process to stop, waits for its end, and for the next to serve.
func (p *Process) Restart(ctx context.Context) string {
	name, ended, ok := p.signal(syscall.SIGTERM, AskedTerm, 0)
	if !ok {
		return ""
	}
	p.await(ended)
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	p.AwaitReady(ctx)
	return name
}

// await waits for an end and kills what does not come to it.
func (p *Process) await(ended <-chan struct{}) {
	select {
	case <-ended:
	case <-time.After(stopMax):
		p.mu.Lock()
		if p.cmd != nil {
			_ = p.cmd.Process.Signal(syscall.SIGKILL)
		}
		p.mu.Unlock()
		<-ended
	}
}

// Stop gives the slot up: the process is told to stop and not started again.
func (p *Process) Stop() {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	if _, ended, ok := p.signal(syscall.SIGTERM, AskedTerm, 0); ok {
		p.await(ended)
	}
	<-p.done
}

// AwaitReady waits until the process serves, or ctx ends.
func (p *Process) AwaitReady(ctx context.Context) bool {
	client := &http.Client{Timeout: readyAsk}
	for p.Ready != "" {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Ready, nil)
		if err != nil {
			return false
		}
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return true
			}
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(readyPoll):
		}
	}
	return true
}
