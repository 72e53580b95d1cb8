package supervise_test

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/supervise"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// start keeps a shell script running and returns its lines and what stops it.
func start(t *testing.T, script string) (out <-chan string, stop func()) {
	t.Helper()
	got := make(chan string, 100)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		supervise.Command{
			Name: "demo", Argv: []string{"sh", "-c", script}, Dir: t.TempDir(), Env: append(os.Environ(), "CRUMB_GROUP=demo"),
			Output: func(line string) { got <- line }, Log: slog.New(slog.DiscardHandler),
		}.Run(ctx)
	}()
	stop = func() {
		cancel()
		select {
		case <-done:
		case <-time.After(patience):
			t.Error("the command did not stop")
		}
	}
	t.Cleanup(stop)
	return got, stop
}

func next(t *testing.T, out <-chan string) string {
	t.Helper()
	select {
	case line := <-out:
		return line
	case <-time.After(patience):
		t.Fatal("no line of output")
		return ""
	}
}

func TestCommand_RestartsWhatEnds(t *testing.T) {
	t.Parallel()
	out, _ := start(t, `echo "up as $CRUMB_GROUP"; exit 3`)
	for range 2 {
		if line := next(t, out); line != "up as demo" {
			t.Errorf("%q", line)
		}
	}
}

// Stopping ends grandchildren too, and lets a handler of SIGTERM finish.
func TestCommand_StopEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	out, stop := start(t, `
		sh -c 'trap "echo drained; exit 0" TERM; echo $$; while :; do sleep 0.05; done' &
		wait`)
	pid, err := strconv.Atoi(next(t, out))
	if err != nil {
		t.Fatal(err)
	}
	stop()
	for next(t, out) != "drained" { // a shell may say that its sleep was terminated, too
	}
	expectGone(t, pid)
}

// What a command leaves behind when it ends by itself is ended with it.
func TestCommand_EndOfTheLeaderEndsTheGroup(t *testing.T) {
	t.Parallel()
	out, _ := start(t, `sh -c 'echo $$; exec sleep 600' >pid & while ! [ -s pid ]; do :; done; cat pid; rm pid`)
	first, err := strconv.Atoi(next(t, out))
	if err != nil {
		t.Fatal(err)
	}
	next(t, out) // started again: the first group is gone
	expectGone(t, first)
}

func TestCommand_LongLinesAreCut(t *testing.T) {
	t.Parallel()
	out, _ := start(t, `head -c 4096 /dev/zero | tr '\0' x; echo; head -c 40000 /dev/zero | tr '\0' x; echo; echo next; printf last; sleep 0.01; echo; sleep 600`)
	for range 2 {
		if line := next(t, out); len(line) < 1000 || len(line) > 5000 || strings.Trim(line, "x") != "… (cut)" {
			t.Errorf("%d bytes: …%s", len(line), line[max(0, len(line)-20):])
		}
	}
	for _, want := range []string{"next", "last"} { // nothing else of the long line
		if line := next(t, out); line != want {
			t.Errorf("%.50q, expected %q", line, want)
		}
	}
}

// expectGone waits for the end of a process that was told to end: it lets go of
// its output a moment before it is gone.
func expectGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(patience); alive(pid); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("process %d still runs", pid)
		}
	}
}

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// A command that is drained ends in its own time and is not started again, also when
// what it started outlives it.
func TestCommand_DrainsInItsOwnTime(t *testing.T) {
	t.Parallel()
	got, drain, ended := make(chan string, 100), make(chan struct{}), make(chan struct{})
	worker := `trap 'echo finishing; sleep 0.3; echo finished; exit 0' TERM; echo up; while :; do sleep 0.05; done`
	go func() {
		defer close(ended)
		supervise.Command{
			Name: "demo", Argv: []string{"sh", "-c", `trap 'exit 0' TERM; sh -c "$WORKER" & wait`}, Dir: t.TempDir(), Env: append(os.Environ(), "WORKER="+worker),
			Output: func(line string) { got <- line }, Log: slog.New(slog.DiscardHandler), Drain: drain,
		}.Run(t.Context())
	}()
	for _, want := range []string{"up", "finishing", "finished"} {
		line := next(t, got)
		for line == "Terminated" { // what the shell says of a sleep that heard the signal too
			line = next(t, got)
		}
		if line != want {
			t.Errorf("%q, expected %q", line, want)
		}
		if want == "up" {
			close(drain)
		}
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the command is kept running")
	}
}

// Whoever started a command may leave it ended.
func TestCommand_AgainSaysNo(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 2)
	supervise.Command{
		Name: "demo", Argv: []string{"sh", "-c", "exit 4"}, Dir: t.TempDir(), Env: os.Environ(), Output: func(string) {}, Log: slog.New(slog.DiscardHandler),
		Again: func(end string) bool { asked <- end; return len(asked) < 2 },
	}.Run(t.Context())
	if len(asked) != 2 || <-asked != "exit status 4" {
		t.Errorf("asked %d times", len(asked))
	}
}
