package core

import (
	"slices"
	"strings"
)

// Missing is the error of a decision that has to read values which are put aside:
// bring the objects in Event.Blobs and decide again. A decision asks for what it
// reads and nothing else, so that a run reads each of its values a bounded number
// of times, however long it is.
type Missing struct {
	Names []string // objects of `blobs`
}

func (m *Missing) Error() string { return "the decision needs " + strings.Join(m.Names, ", ") }

// need asks for all values at once that are not here; load alone would ask for one
// after the other.
func (d *decision) need(values ...Value) {
	missing := &Missing{}
	for _, v := range values {
		if _, here := d.find(v.Ref); v.Ref != "" && !here && !slices.Contains(missing.Names, v.Ref) {
			missing.Names = append(missing.Names, v.Ref)
		}
	}
	if len(missing.Names) > 0 {
		panic(missing) // Decide returns it: nothing of this application is kept
	}
}

// find looks for an object of this decision, or one that the event brought.
func (d *decision) find(name string) ([]byte, bool) {
	for _, b := range d.s.Blobs {
		if b.Name == name {
			return b.Data, true
		}
	}
	b, ok := d.e.Blobs[name]
	return b, ok
}

// asks turns the panic of need into the error of a decision.
func asks(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Missing:
		*err = r
	default:
		panic(r)
	}
}
