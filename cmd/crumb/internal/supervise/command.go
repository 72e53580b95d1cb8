package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"time"
)

// Waits of a supervised command.
const (
	// StopWait is how long a process group has after SIGTERM.
	StopWait = 10 * time.Second
	// DrainMax is how long it has after Drain: longer than a worker lets its calls go
	// on, since nobody waits for it.
	DrainMax = 2 * time.Minute
	// RestartMin is the wait before the first restart, RestartMax the longest.
	RestartMin = 250 * time.Millisecond
	RestartMax = 10 * time.Second
	// settled is how long a command must have run for its next restart to be the
	// first again.
	settled = 30 * time.Second
	// drainWait is how long output is read after the group was killed: only a
	// process that left the group can hold it open.
	drainWait = time.Second
)

// Command is what to keep running.
type Command struct {
	Name   string // in the log and before each line of output
	Argv   []string
	Dir    string
	Env    []string          // the whole environment
	Output func(line string) // takes each line of standard output and error
	// Drain, once closed, asks the command to end in its own time, DrainMax at most,
	// and not to be started again.
	Drain <-chan struct{}
	// Again is asked when the command ended by itself, with why; false leaves it
	// ended. It is started again each time when nil.
	Again func(end string) bool
	Log   *slog.Logger
}

// Run keeps the command running until ctx ends and its process group is gone, or
// Again said no.
func (c Command) Run(ctx context.Context) {
	wait := RestartMin
	for {
		started := time.Now()
		err := c.once(ctx)
		if ctx.Err() != nil || c.drained() || c.Again != nil && !c.Again(reason(err)) {
			return
		}
		if time.Since(started) >= settled {
			wait = RestartMin
		}
		c.Log.Warn("the command ended, starting it again", "name", c.Name, "end", reason(err), "in", wait)
		if !sleep(ctx, wait) {
			return
		}
		wait = min(2*wait, RestartMax)
	}
}

func (c Command) drained() bool {
	select {
	case <-c.Drain:
		return true
	default:
		return false
	}
}

// sleep reports whether d went by before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func reason(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// once runs the command one time. The end of its leader ends what the group
// left running, since a second worker would answer for the first; only when it is
// told to stop may the rest of the group finish within StopWait.
func (c Command) once(ctx context.Context) error {
	from, to, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("pipe: %w", err)
	}
	in, held, err := os.Pipe() // never written: its end says that this process is gone
	if err != nil {
		_, _ = from.Close(), to.Close()
		return fmt.Errorf("pipe: %w", err)
	}
	defer func() { _ = held.Close() }() // the group is gone by then
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = c.Dir, c.Env, in, to, to, StopWait
	separate(cmd)
	cmd.Cancel = func() error { return terminate(cmd) }
	err = cmd.Start()
	_, _ = to.Close(), in.Close() // the command has its own
	if err != nil {
		_ = from.Close() // nothing was written
		return fmt.Errorf("start: %w", err)
	}
	silent := make(chan struct{}) // the group holds its output no more
	go func() { defer close(silent); read(from, c.Output) }()
	ended := make(chan struct{})
	drained := make(chan struct{})
	go func() { defer close(drained); c.drain(ctx, cmd, ended, silent) }()
	err = cmd.Wait()
	close(ended)
	<-drained
	if ctx.Err() != nil {
		within(silent, StopWait)
	}
	kill(cmd)
	within(silent, drainWait)
	_ = from.Close() // ends the reading, if a process left the group with it
	<-silent
	return err
}

// drain asks the group to end when it is told to, and waits until its leader and
// what that started are gone: a leader may end before the worker it started does.
func (c Command) drain(ctx context.Context, cmd *exec.Cmd, ended, silent <-chan struct{}) {
	select {
	case <-c.Drain:
	case <-ended:
		if !c.drained() {
			return
		}
	}
	_ = terminate(cmd) // whatever of it is left
	late := time.NewTimer(DrainMax)
	defer late.Stop()
	select {
	case <-silent:
	case <-ctx.Done():
	case <-late.C:
		kill(cmd)
	}
}

// within waits for done, but not longer than d.
func within(done <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}
