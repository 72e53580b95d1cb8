package terminal

import (
	"bufio"
	"errors"
	"io"
)

// lineMax bounds one line that a person types, in bytes.
const lineMax = 64 << 10

// Typed is a line without its line break, or why there is no more: io.EOF when
// the person ended the input (Ctrl-D).
type Typed struct {
	Line string
	Err  error
}

// Lines reads what is typed, line by line, when asked to: a line is read only
// after Want, so that what the terminal holds for the next program stays there.
type Lines struct {
	want chan struct{}
	got  chan Typed
}

// ErrLineTooLong is a line over 64 KiB.
var ErrLineTooLong = errors.New("the line is longer than 64 KiB")

// NewLines starts to serve in. Its goroutine ends with the input, or with the
// process: a read of a terminal cannot be interrupted.
func NewLines(in io.Reader) *Lines {
	l := &Lines{want: make(chan struct{}, 1), got: make(chan Typed, 1)}
	go l.serve(bufio.NewReaderSize(in, lineMax))
	return l
}

// Want asks for the next line; while one is being read it asks for nothing more.
func (l *Lines) Want() {
	select {
	case l.want <- struct{}{}:
	default:
	}
}

// Got delivers the lines wanted.
func (l *Lines) Got() <-chan Typed { return l.got }

func (l *Lines) serve(in *bufio.Reader) {
	for range l.want {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			err = ErrLineTooLong
		case len(line) > 0 && errors.Is(err, io.EOF):
			err = nil
		}
		l.got <- Typed{Line: trimBreak(string(line)), Err: err}
		if err != nil {
			return
		}
	}
}

func trimBreak(s string) string {
	for len(s) > 0 && (s[len(s)-1] == '\n' || s[len(s)-1] == '\r') {
		s = s[:len(s)-1]
	}
	return s
}
