package program

import (
	"errors"
	"os"
	"sync"
	"time"
)

const (
	// drainMax is how long a read waits for more output once the program ended
	// and its group was killed. What it wrote is in the pipe by then; only a
	// process that left the group can keep the output open.
	drainMax = time.Second
	// drainReadsMax bounds those reads, for a process that keeps writing. What a
	// program left behind needs fewer: a pipe holds at most 1 MiB.
	drainReadsMax = 64
)

// errOpen is why a source ends before its end of file.
var errOpen = errors.New("the output is still open")

// source reads one of the program's outputs. Its reader may take any time
// between two reads: a watcher's pace is not the program's silence.
type source struct {
	file *os.File

	mu       sync.Mutex
	draining bool
	reads    int // since drain
}

// drain bounds what is still read. It is called when the program has ended.
func (s *source) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	_ = s.file.SetReadDeadline(time.Now().Add(drainMax)) // of a read under way
}

// Read waits at most drainMax, twice, once the program ended, then returns errOpen.
// The end of file is always the output's own.
func (s *source) Read(b []byte) (int, error) {
	if err := s.renew(); err != nil {
		return 0, err
	}
	n, err := s.file.Read(b)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	// On a busy machine the time may have passed before the wait began.
	if err := s.renew(); err != nil {
		return 0, err
	}
	if n, err = s.file.Read(b); errors.Is(err, os.ErrDeadlineExceeded) {
		return n, errOpen
	}
	return n, err
}

// renew starts the time of one read.
func (s *source) renew() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.draining {
		return nil
	}
	if s.reads++; s.reads > drainReadsMax {
		return errOpen
	}
	return s.file.SetReadDeadline(time.Now().Add(drainMax))
}
