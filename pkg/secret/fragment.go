package secret

import (
	"encoding/json"
	"strings"
)

// Fragment is JSON for one of several documents that a reader puts together: it
// also hides what a text ends with that begins a secret, and what it begins with
// that ends one, from LengthMin bytes on. A secret that is cut between two documents
// shows less than that of either part.
func (m *Masker) Fragment(raw json.RawMessage) json.RawMessage {
	if m == nil {
		return raw
	}
	return m.document(raw, m.fragment)
}

func (m *Masker) fragment(text string) string {
	text = m.Text(text)
	for i := max(0, len(text)-m.longest+1); i+LengthMin <= len(text); i++ {
		if p, ok := m.beginning(text[i:]); ok {
			text = text[:i] + p.label
			break
		}
	}
	if p, n := m.ending(text); n > 0 {
		text = p.label + text[n:]
	}
	return text
}

// ending is the secret whose end s begins with, and how much of s that is.
func (m *Masker) ending(s string) (found pattern, n int) {
	if len(s) < LengthMin {
		return found, 0
	}
	for _, same := range m.byFirst {
		for _, p := range same {
			if at := strings.LastIndex(p.text, s[:LengthMin]); at > 0 && len(p.text)-at > n && strings.HasPrefix(s, p.text[at:]) {
				found, n = p, len(p.text)-at
			}
		}
	}
	return found, n
}
