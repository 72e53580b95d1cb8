package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/secret"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// runTool is the handler of a tool: what the program leaves in its folder is stored
// once it succeeded, and is its result when it wrote nothing.
func (p Program) runTool(ctx tool.Context, args json.RawMessage, yield tool.Yield) (json.RawMessage, error) {
	dir := newFolder(ctx)
	defer dir.remove()
	stored := false
	out := &output{empty: func() (json.RawMessage, error) {
		stored = true
		return dir.result(ctx)
	}}
	if p.Stream {
		out.yield = yield
	}
	result, err := p.execute(ctx, "tool", args, out, dir.variables()...)
	if err != nil || stored {
		return result, err
	}
	_, err = dir.store(ctx)
	return result, err
}

// run is the handler of a parser.
func (p Program) run(ctx tool.Context, args json.RawMessage, _ tool.Yield) (json.RawMessage, error) {
	return p.execute(ctx, "parser", args, &output{})
}

// execute runs the program once, with more variables of its own. It returns when it has ended,
// also when ctx is done before.
func (p Program) execute(ctx tool.Context, noun string, args json.RawMessage, out *output, more ...string) (json.RawMessage, error) {
	env, err := p.environment(ctx, noun)
	if err != nil {
		return nil, err
	}
	masker := ctx.Secrets.Masker()
	proc, err := p.start(append(env, more...), masker)
	if err != nil {
		return nil, err
	}
	out.tooMuch, out.masker = proc.kill, masker
	ended := proc.feed(args, out)
	select {
	case <-ended:
	case <-ctx.Done():
		// What a program writes while it is being stopped is no answer.
		if proc.terminate(ended) {
			return nil, context.Cause(ctx)
		}
	}
	if f := out.problem(); f != nil {
		return nil, proc.explain(f)
	}
	if f := proc.failure(p.Command[0]); f != nil {
		return nil, proc.explain(f)
	}
	if proc.cut != nil {
		// What came may end anywhere, half a number is one too.
		return nil, proc.explain(fault.Wrap(fault.ToolError, proc.cut, "the output did not end with the program %q: "+
			"something it started holds standard output open; let that write elsewhere (>/dev/null), or end before the program does", p.Command[0]))
	}
	result, f := out.result()
	if f != nil {
		return nil, proc.explain(f)
	}
	return result, nil
}

// process is a running program with its three pipes. They are plain files, so
// that waiting for the program does not wait for whoever inherited them.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	errors *os.File
	stderr *tail
	exited chan struct{} // closed when the program was waited for
	err    error         // of Wait, once exited
	cut    error         // why reading stdout stopped before its end

	mu    sync.Mutex
	ended bool // the program was waited for: its id may name another one
}

func (p Program) start(env []string, masker *secret.Masker) (*process, error) {
	cmd := exec.Command(p.Command[0], p.Command[1:]...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = p.Dir, env, attributes()
	proc := &process{cmd: cmd, stderr: &tail{max: StderrMax, text: masker.Stream()}, exited: make(chan struct{})}
	var theirs []*os.File
	pipe := func(childReads bool) (child, ours *os.File, err error) {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, nil, err
		}
		child, ours = w, r
		if childReads {
			child, ours = r, w
		}
		theirs = append(theirs, child)
		return child, ours, nil
	}
	var err error
	var in, out, errs *os.File
	in, proc.stdin, err = pipe(true)
	if err == nil {
		out, proc.stdout, err = pipe(false)
	}
	if err == nil {
		errs, proc.errors, err = pipe(false)
	}
	if err == nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errs
		err = proc.live()
	}
	for _, f := range theirs {
		_ = f.Close()
	}
	if err != nil {
		proc.close()
		return nil, fault.Wrap(fault.ToolError, err, "the program %q does not start: %s", p.Command[0], startReason(err))
	}
	return proc, nil
}

// live starts the program; exited is closed when it ended and what it left
// running was killed. One thread does both and waits in between, since the death
// of the thread that started the program is that of the worker to the kernel.
func (x *process) live() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := x.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		x.err = x.cmd.Wait()
		x.kill()
		x.mu.Lock()
		x.ended = true
		x.mu.Unlock()
		close(x.exited)
	}()
	return <-started
}

// startReason says why without the worker's own paths.
func startReason(err error) string {
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return "it, its interpreter or its directory is not found on the worker"
	case errors.Is(err, os.ErrPermission):
		return "it is not executable"
	}
	return "the system refused it"
}

// feed writes the arguments, reads the output and waits; the channel is closed
// when the program has ended and everything it wrote was read, or cut is set.
func (x *process) feed(args json.RawMessage, out *output) <-chan struct{} {
	go func() {
		// A program may end without reading its arguments.
		_, _ = x.stdin.Write(args)
		_ = x.stdin.Close()
	}()
	stdout, stderr := &source{file: x.stdout}, &source{file: x.errors}
	read := make(chan struct{}, 2)
	go func() { _, x.cut = io.Copy(out, stdout); read <- struct{}{} }()
	go func() { _, _ = io.Copy(x.stderr, stderr); read <- struct{}{} }() // its end is quoted, whole or not
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-x.exited
		stdout.drain()
		stderr.drain()
		<-read
		<-read
		x.close()
	}()
	return ended
}

// terminate asks the group to end, then ends it. It reports false when the
// program had ended before.
func (x *process) terminate(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return false
	default:
	}
	x.signal(terminateSignal)
	timer := time.NewTimer(KillAfter)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		x.kill()
		<-ended
	}
	return true
}

func (x *process) kill() { x.signal(killSignal) }

func (x *process) signal(s syscall.Signal) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.ended {
		signalGroup(x.cmd.Process.Pid, s)
	}
}

func (x *process) close() {
	for _, f := range []*os.File{x.stdin, x.stdout, x.errors} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// failure is TOOL_ERROR unless the program ended with status 0.
func (x *process) failure(name string) *fault.Error {
	if x.err == nil {
		return nil
	}
	return fault.New(fault.ToolError, "the program %q failed (%s)", name, x.cmd.ProcessState).
		With("exitCode", x.cmd.ProcessState.ExitCode())
}

// explain adds the end of standard error to the message.
func (x *process) explain(f *fault.Error) *fault.Error {
	c := *f
	if stderr := x.stderr.String(); stderr != "" {
		c.Message += ": " + stderr
	}
	return &c
}

// tail keeps the end of what is written to it, masked before it is cut: the rest
// of a secret would not be found. It is read only after the writer has ended.
type tail struct {
	max  int
	text *secret.Stream
	buf  []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.keep(t.text.Write(string(b)))
	return len(b), nil
}

func (t *tail) keep(s string) {
	t.buf = append(t.buf, s...)
	if over := len(t.buf) - t.max; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
}

func (t *tail) String() string {
	t.keep(t.text.Flush())
	return string(bytes.ToValidUTF8(bytes.TrimSpace(t.buf), nil))
}
