package program

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/secret"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// output is what a program writes: one document, or with a yield one a line.
// The first problem ends the program.
type output struct {
	yield   tool.Yield // nil: one document
	tooMuch func()     // ends the program
	masker  *secret.Masker

	// empty is the result when nothing was written; a nil one, or no function, makes
	// that an error. With ignored, whatever was written is nothing.
	empty   func() (json.RawMessage, error)
	ignored bool

	mu    sync.Mutex
	buf   []byte
	line  int
	last  json.RawMessage
	fault *fault.Error
}

// Write takes what came; it never fails, so that the program is read to its end.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fault != nil {
		return len(b), nil
	}
	if o.ignored {
		return len(b), nil
	}
	rest := b
	for o.yield != nil {
		line, after, found := bytes.Cut(rest, []byte{'\n'})
		if !found {
			break
		}
		rest = after
		if o.keep(line); o.fault == nil {
			o.take()
		}
		if o.fault != nil {
			return len(b), nil
		}
	}
	o.keep(rest)
	return len(b), nil
}

func (o *output) keep(b []byte) {
	if len(o.buf)+len(b) > ResultMax {
		o.refuse(fault.New(fault.PayloadTooLarge, "the program wrote a document over the limit of %d bytes: write less, or store it and write a reference", ResultMax).
			With("limit", ResultMax))
		return
	}
	o.buf = append(o.buf, b...)
}

// take hands the line that is complete on as a partial.
func (o *output) take() {
	o.line++
	doc := bytes.Clone(bytes.TrimSpace(o.buf))
	o.buf = o.buf[:0]
	if len(doc) == 0 {
		return
	}
	if !document(doc) {
		o.refuse(fault.New(fault.ToolError, "the program streams, but line %d of its output is not a JSON document: %s", o.line, o.excerpt(doc)))
		return
	}
	o.last = doc
	if err := o.yield(doc); err != nil {
		o.refuse(fault.From(err))
	}
}

func (o *output) refuse(f *fault.Error) {
	o.fault = f
	o.buf = nil
	o.tooMuch()
}

func (o *output) problem() *fault.Error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fault
}

// result is the document, or the last line, which may lack its newline; a
// stream without lines is null (CF-S04).
func (o *output) result() (json.RawMessage, *fault.Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.yield != nil {
		o.take()
		if o.fault == nil && o.last == nil {
			return json.RawMessage("null"), nil
		}
		return o.last, o.fault
	}
	doc := bytes.TrimSpace(o.buf)
	if len(doc) == 0 && o.empty != nil {
		if result, err := o.empty(); err != nil {
			return nil, o.failed(err)
		} else if result != nil {
			return result, nil
		}
	}
	if !document(doc) {
		return nil, fault.New(fault.ToolError, "the program's output is not one JSON document: %s", o.excerpt(doc))
	}
	return doc, nil
}

// failed is err as a fault: TOOL_ERROR when it has no code.
func (o *output) failed(err error) *fault.Error {
	if fault.CodeOf(err) != "" {
		return fault.From(err)
	}
	return fault.Wrap(fault.ToolError, err, "the program's files cannot be stored: %s", o.masker.Text(err.Error()))
}

// document reports whether doc is one. Of one nested too deeply json.Valid
// cannot tell: package tool, which takes it next, says what is wrong with it.
func document(doc []byte) bool {
	return utf8.Valid(doc) && (json.Valid(doc) || argument.Depth(doc) > tool.DepthMax)
}

// excerptMax is how much of a wrong output an error quotes, in bytes.
const excerptMax = 200

// excerpt is masked before it is cut: half a secret would not be found.
func (o *output) excerpt(doc []byte) string {
	b := []byte(o.masker.Text(string(doc)))
	if len(b) == 0 {
		return "it wrote nothing"
	}
	if len(b) > excerptMax {
		return fmt.Sprintf("%q… (%d bytes)", bytes.ToValidUTF8(b[:excerptMax], nil), len(b))
	}
	return fmt.Sprintf("%q", bytes.ToValidUTF8(b, nil))
}
