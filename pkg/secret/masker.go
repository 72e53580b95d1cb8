package secret

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// headLen is how many bytes at the beginning of a form find it; no form is
// shorter.
const headLen = 4

// filterBits is the size of the filter that most positions of a text do not pass.
const filterBits = 16

// openMax bounds what a stream holds back of secrets that overlap without end, in
// lengths of the longest.
const openMax = 4

// pattern is one form of one secret.
type pattern struct{ text, label string }

// Masker replaces secrets. It is immutable and may be used by several goroutines;
// a nil Masker finds nothing.
type Masker struct {
	byHead  map[uint32][]pattern // longest first
	byFirst [256][]pattern       // by first byte
	filter  [1 << filterBits / 64]uint64
	longest int
}

var nameRE = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// label is what stands in a secret's place. It needs no escape in JSON or URLs'
// texts, whatever the name is.
func label(name string) string {
	if !nameRE.MatchString(name) {
		name = "secret"
	}
	return "[" + name + "]"
}

// compile makes a masker of secrets; the first name of a form wins.
func compile(secrets []entry) *Masker {
	labels := map[string]string{}
	for _, s := range secrets {
		for _, value := range values(s.value) {
			for _, form := range forms(value) {
				if _, known := labels[form]; !known && len(form) >= headLen {
					labels[form] = label(s.name)
				}
			}
		}
	}
	if len(labels) == 0 {
		return nil
	}
	m := &Masker{byHead: map[uint32][]pattern{}}
	all := slices.SortedFunc(maps.Keys(labels), func(a, b string) int {
		return cmp.Or(len(b)-len(a), strings.Compare(a, b))
	})
	for _, form := range all {
		p := pattern{form, labels[form]}
		h := head(form)
		m.byHead[h] = append(m.byHead[h], p)
		m.byFirst[form[0]] = append(m.byFirst[form[0]], p)
		bit := filterBit(h)
		m.filter[bit/64] |= 1 << (bit % 64)
		m.longest = max(m.longest, len(form))
	}
	return m
}

func head(s string) uint32 {
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func filterBit(h uint32) uint32 { return (h * 0x9E3779B1) >> (32 - filterBits) }

// Text returns s with a placeholder for each secret in it, s itself when there is
// none.
func (m *Masker) Text(s string) string {
	if m == nil {
		return s
	}
	out, _ := m.scan(s, true)
	return out
}

// scan masks s from its beginning. Unless s is whole it stops where a secret may
// have begun that the rest of the text ends; that rest is returned.
func (m *Masker) scan(s string, whole bool) (masked, rest string) {
	var out strings.Builder
	kept := 0 // s up to here is in out
	for i := 0; i < len(s); {
		if whole {
			if i = m.next(s, i); i == len(s) {
				break
			}
		} else if m.begins(s[i:]) {
			return out.String() + s[kept:i], s[i:]
		}
		p, ok := m.at(s[i:])
		if !ok {
			i++
			continue
		}
		end, labels, open := m.region(s, i, p, whole)
		if open {
			return out.String() + s[kept:i], s[i:]
		}
		out.WriteString(s[kept:i])
		out.WriteString(labels)
		i, kept = end, end
	}
	if kept == 0 {
		return s, ""
	}
	return out.String() + s[kept:], ""
}

// region is how far a secret at i goes, with those that overlap it; open says that
// what comes next may belong to it.
func (m *Masker) region(s string, i int, p pattern, whole bool) (end int, labels string, open bool) {
	end, labels = i+len(p.text), p.label
	for j := i + 1; j < end; j++ {
		if !whole && end-i < openMax*m.longest && m.begins(s[j:]) {
			return end, labels, true
		}
		if q, ok := m.at(s[j:]); ok && j+len(q.text) > end {
			end = j + len(q.text)
			if q.label != p.label {
				labels += q.label
			}
		}
	}
	return end, labels, false
}

// next is the first position from i on where a secret may begin, len(s) when there
// is none.
func (m *Masker) next(s string, i int) int {
	if i+headLen > len(s) {
		return len(s)
	}
	h := head(s[i:]) << 8
	for ; i+headLen <= len(s); i++ {
		h = h>>8 | uint32(s[i+headLen-1])<<24
		if bit := filterBit(h); m.filter[bit/64]&(1<<(bit%64)) != 0 {
			return i
		}
	}
	return len(s)
}

// at is the longest secret that s begins with.
func (m *Masker) at(s string) (pattern, bool) {
	if len(s) < headLen {
		return pattern{}, false
	}
	h := head(s)
	if bit := filterBit(h); m.filter[bit/64]&(1<<(bit%64)) == 0 {
		return pattern{}, false
	}
	for _, p := range m.byHead[h] {
		if strings.HasPrefix(s, p.text) {
			return p, true
		}
	}
	return pattern{}, false
}

// begins reports whether s is the beginning of a secret and not all of it.
func (m *Masker) begins(s string) bool {
	_, ok := m.beginning(s)
	return ok
}

// beginning is the longest secret that s is the beginning of.
func (m *Masker) beginning(s string) (pattern, bool) {
	if len(s) >= m.longest {
		return pattern{}, false
	}
	for _, p := range m.byFirst[s[0]] {
		if len(p.text) <= len(s) {
			break // those that follow are shorter
		}
		if strings.HasPrefix(p.text, s) {
			return p, true
		}
	}
	return pattern{}, false
}

// Finds reports whether s has a secret in it.
func (m *Masker) Finds(s string) bool {
	if m == nil {
		return false
	}
	for i := m.next(s, 0); i < len(s); i = m.next(s, i+1) {
		if _, ok := m.at(s[i:]); ok {
			return true
		}
	}
	return false
}
