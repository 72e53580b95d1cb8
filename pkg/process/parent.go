package process

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// How a process is told to end with whoever started it: `crumb dev` sets the variable
// for a group's command and gives it a standard input that it never writes to. The
// system closes that when `crumb dev` is gone, however it went.
const (
	ParentVariable = "CRUMB_PARENT"
	ParentStdin    = "stdin"
)

// Parent is the standard input to watch. Only a pipe has an end that says who is gone:
// of a background job of a shell it is /dev/null, at whose end nobody went, and then
// there is nothing to watch.
func Parent(stdin *os.File) *os.File {
	info, err := stdin.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return nil
	}
	return stdin
}

// attached ends a context when whoever holds the other end of parent is gone; a nil
// parent has nobody. What comes from there is read and means nothing.
func attached(ctx context.Context, parent io.Reader, log *slog.Logger) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	go func() {
		if _, err := io.Copy(io.Discard, parent); err == nil && ctx.Err() == nil {
			log.Warn("whoever started this process is gone: standard input is at its end")
			stop()
		}
	}()
	return ctx, stop
}

// outliving lets the process go on when nobody reads its output any more: a write
// to a standard output or error without a reader would otherwise end it with SIGPIPE,
// in the middle of a call. Ignoring the signal would be inherited by the commands
// that the process starts; what is only taken is not.
func outliving() (done func()) {
	taken := make(chan os.Signal, 1) // never read: one more is dropped
	signal.Notify(taken, syscall.SIGPIPE)
	return func() { signal.Stop(taken) }
}
