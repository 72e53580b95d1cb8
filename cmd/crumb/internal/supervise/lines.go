package supervise

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// lineMax is the longest line of output, in bytes; a longer one is cut.
const lineMax = 16 << 10

// read hands on the lines of r until it ends.
func read(r io.Reader, emit func(string)) {
	in := bufio.NewReaderSize(r, lineMax)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			emit(strings.TrimRight(string(line), "\r\n"))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}
