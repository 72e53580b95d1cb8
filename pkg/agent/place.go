package agent

import (
	"slices"
	"strconv"
	"strings"
)

// place is a path inside a document: keys, and list indexes as `[n]`. The empty
// place is the document itself.
type place []string

// key is the place of a key inside p.
func (p place) key(name string) place { return append(slices.Clip(p), name) }

// index is the place of the n-th item (from 0) of the list at p.
func (p place) index(n int) place { return append(slices.Clip(p), "["+strconv.Itoa(n)+"]") }

// within reports whether p is outer or lies inside it.
func (p place) within(outer place) bool {
	return len(p) >= len(outer) && slices.Equal(p[:len(outer)], outer)
}

// String renders `permissions.deny[0]`, clipped, with odd keys quoted.
func (p place) String() string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case strings.HasPrefix(s, "["):
			b.WriteString(s)
			continue
		case i > 0:
			b.WriteByte('.')
		}
		b.WriteString(word(s))
	}
	return b.String()
}

// wordMax is the number of bytes of foreign text that a message repeats.
const wordMax = 80

// word is a key as a message shows it: quoted when it holds anything odd.
func word(s string) string {
	plain := s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && r != '-' && r != '$' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	if plain {
		return clip(s)
	}
	return quote(s)
}

// quote is foreign text as a message shows it: clipped and on one line.
func quote(s string) string { return strconv.Quote(clip(s)) }

// clip cuts s to wordMax bytes at a rune.
func clip(s string) string { return clipTo(s, wordMax) }

func clipTo(s string, bytesMax int) string {
	if len(s) <= bytesMax {
		return s
	}
	return strings.ToValidUTF8(s[:bytesMax], "") + "…"
}
