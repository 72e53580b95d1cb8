package terminal

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Stdio are the streams and the environment of one command.
type Stdio struct {
	In  io.Reader
	Out io.Writer // what was asked for: JSON, tables, a run's output
	Err io.Writer // everything else: progress, prompts, warnings
	Env func(name string) (string, bool)
}

// Process returns the streams of this process.
func Process() Stdio {
	return Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.LookupEnv}
}

// Interactive reports whether a person can be asked: input and the stream that
// prompts are written to are both terminals.
func (s Stdio) Interactive() bool { return IsTerminal(s.In) && IsTerminal(s.Err) }

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && f != nil && term.IsTerminal(int(f.Fd()))
}
