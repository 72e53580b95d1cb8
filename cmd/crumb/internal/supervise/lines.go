package supervise

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// lineMax is the longest line of output, in bytes; the rest of a longer one is
// dropped, since a person reads it among the lines of others.
const lineMax = 4 << 10

// cutMark stands at the end of a line that was cut.
const cutMark = "… (cut)"

// read hands on the lines of r until it ends.
func read(r io.Reader, emit func(string)) {
	in := bufio.NewReaderSize(r, lineMax)
	for inside := false; ; { // inside a line whose beginning was handed on
		line, err := in.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		switch {
		case inside || len(line) == 0:
		case long:
			emit(strings.ToValidUTF8(string(line), "") + cutMark)
		default:
			emit(strings.TrimRight(string(line), "\r\n"))
		}
		if inside = long; err != nil && !long {
			return
		}
	}
}
