package secret

import (
	"bytes"
	"encoding/json"
	"strings"
)

// JSON returns a document with a placeholder for each secret in its strings, keys
// and numbers, raw itself when there is none. A number with a secret in it becomes
// a string. The document stays valid; what is none is masked as a text.
func (m *Masker) JSON(raw json.RawMessage) json.RawMessage {
	if m == nil {
		return raw
	}
	return m.document(raw, m.Text)
}

// document masks each string, key and number of raw with mask.
func (m *Masker) document(raw json.RawMessage, mask func(string) string) json.RawMessage {
	var out bytes.Buffer
	kept := 0
	for i := 0; i < len(raw); {
		end := token(raw, i)
		if masked, changed := masked(raw[i:end], mask); changed {
			out.Write(raw[kept:i])
			out.WriteString(masked)
			kept = end
		}
		i = end
	}
	if kept == 0 {
		return raw
	}
	out.Write(raw[kept:])
	return out.Bytes()
}

// token is the end of what begins at i: a string, a number, or one byte of
// anything else.
func token(raw []byte, i int) int {
	switch c := raw[i]; {
	case c == '"':
		for j := i + 1; j < len(raw); j++ {
			switch raw[j] {
			case '\\':
				j++
			case '"':
				return j + 1
			}
		}
		return len(raw)
	case c == '-' || c >= '0' && c <= '9':
		j := i + 1
		for j < len(raw) && strings.IndexByte("+-.eE0123456789", raw[j]) >= 0 {
			j++
		}
		return j
	}
	return i + 1
}

// masked is one string or number, masked.
func masked(t []byte, mask func(string) string) (again string, changed bool) {
	if len(t) < headLen {
		return "", false
	}
	text := string(t)
	switch last := len(t) - 1; {
	case t[0] != '"': // a number becomes a string
		again = mask(text)
		return `"` + again + `"`, again != text
	case t[last] != '"': // cut off: no JSON
		again = mask(text)
		return again, again != text
	case bytes.IndexByte(t, '\\') < 0:
		text = text[1:last]
	case json.Unmarshal(t, &text) != nil:
		again = mask(text)
		return again, again != text
	}
	again = mask(text)
	if again == text {
		return "", false
	}
	raw, err := json.Marshal(again)
	if err != nil { // a string always encodes
		return `"[secret]"`, true
	}
	return string(raw), true
}
