package secret

import (
	"slices"
	"strings"
	"sync"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Bounds of what a Book takes.
const (
	LengthMin = 6         // bytes of the shortest value that is masked
	LengthMax = 16 << 10  // bytes of the longest
	CountMax  = 512       // values
	BytesMax  = 256 << 10 // of all values together
)

// entry is one secret.
type entry struct{ name, value string }

// Book is the secrets that one process, or one call in it, knows. It may be used
// by several goroutines; a nil Book has no secrets and takes none.
type Book struct {
	parent *Book

	mu      sync.Mutex
	own     []entry
	bytes   int
	version int // grows with own
	masker  *Masker
	made    int // the version of the whole chain that masker was made of
}

// NewBook returns an empty book; what parent knows, also later, counts as known.
func NewBook(parent *Book) *Book { return &Book{parent: parent} }

// Maskable reports whether a value is long enough to be masked.
func Maskable(value string) bool { return len(strings.TrimSpace(value)) >= LengthMin }

// Add makes a value a secret from here on; name stands in its place. A value that
// is not Maskable is not taken. It fails with INVALID_CONFIG, naming the secret
// and not its value, when the value is over LengthMax or the book is full: the
// caller must not use what cannot be masked.
func (b *Book) Add(name, value string) error {
	if b == nil || !Maskable(value) {
		return nil
	}
	if len(value) > LengthMax {
		return fault.New(fault.InvalidConfig, "the secret %s has %d bytes, of which at most %d can be kept out of results: put it into a file and pass its path", label(name), len(value), LengthMax).
			With("name", name).With("limit", LengthMax)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := entry{name, value}
	if slices.Contains(b.own, e) {
		return nil
	}
	if len(b.own) >= CountMax || b.bytes+len(value) > BytesMax {
		return fault.New(fault.InvalidConfig, "the secret %s is one too many: at most %d, of %d bytes together, can be kept out of results", label(name), CountMax, BytesMax).
			With("name", name)
	}
	b.own, b.bytes = append(b.own, e), b.bytes+len(value)
	b.version++
	return nil
}

// Masker masks what the book knows now.
func (b *Book) Masker() *Masker {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.own) == 0 && b.parent != nil {
		return b.parent.Masker()
	}
	inherited, version := b.parent.entries()
	version += b.version
	if b.masker == nil || b.made != version {
		b.masker, b.made = compile(append(inherited, b.own...)), version
	}
	return b.masker
}

// entries are the secrets of the whole chain and how often it grew.
func (b *Book) entries() ([]entry, int) {
	if b == nil {
		return nil, 0
	}
	all, version := b.parent.entries()
	b.mu.Lock()
	defer b.mu.Unlock()
	return append(all, b.own...), version + b.version
}
