package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// FaultsMax is the number of faults that one Load or Check lists; a last entry
// says how many more there are.
const FaultsMax = 500

// Fault is one thing wrong with one file of a project.
type Fault struct {
	File   string       `json:"file"` // slash-separated, relative to the project (Load) or to the agent's folder (Check)
	Line   int          `json:"line,omitempty"`
	Column int          `json:"column,omitempty"` // both from 1; 0 where there is no text, as in a definition over the wire
	Err    *fault.Error `json:"error"`
}

// Error renders `file:line:col: CODE: message` on one line.
func (f Fault) Error() string {
	text := f.File + ": " + f.Err.Error()
	if f.Line > 0 {
		text = fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Err)
	}
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
}

// Unwrap returns the fault without its position.
func (f Fault) Unwrap() error { return f.Err }

// Faults are everything wrong with a project or a definition, ordered by file,
// line and column. errors.Is and errors.As look into each.
type Faults []Fault

// Error renders one fault a line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, one := range f {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults.
func (f Faults) Unwrap() []error {
	errs := make([]error, len(f))
	for i, one := range f {
		errs[i] = one
	}
	return errs
}

// Summary is f as the one fault that a reply carries: the code of the first,
// the message of all, and each line in the context's `faults`.
func (f Faults) Summary() *fault.Error {
	if len(f) == 0 {
		return nil
	}
	return fault.New(f[0].Err.Code, "%s", f.Error()).With("faults", strings.Split(f.Error(), "\n"))
}

// problem is a fault whose line is not known yet: the checks know documents,
// only the loader knows texts.
type problem struct {
	file string
	at   place
	err  *fault.Error
}

// ordered sorts, removes repeats and bounds what was found; nil when nothing was.
func ordered(found []Fault) error {
	if len(found) == 0 {
		return nil
	}
	slices.SortStableFunc(found, func(a, b Fault) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	found = slices.CompactFunc(found, func(a, b Fault) bool { return a.Error() == b.Error() })
	if more := len(found) - FaultsMax; more > 0 {
		last := found[FaultsMax]
		last.Err = fault.New(fault.InvalidConfig, "and %d more faults from here on; mend these first", more)
		found = append(found[:FaultsMax:FaultsMax], last)
	}
	return Faults(found)
}
