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
	if m == nil || len(raw) == 0 {
		return raw
	}
	var out bytes.Buffer
	kept := 0
	for i := 0; i < len(raw); {
		end := token(raw, i)
		if masked, changed := m.token(raw[i:end]); changed {
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

// token masks one string or number.
func (m *Masker) token(t []byte) (masked string, changed bool) {
	if len(t) < headLen {
		return "", false
	}
	if t[0] != '"' {
		text := m.Text(string(t))
		return `"` + text + `"`, text != string(t)
	}
	if t[len(t)-1] != '"' { // cut off: no JSON
		text := m.Text(string(t))
		return text, text != string(t)
	}
	if bytes.IndexByte(t, '\\') < 0 {
		text := m.Text(string(t[1 : len(t)-1]))
		return `"` + text + `"`, len(text) != len(t)-2 || text != string(t[1:len(t)-1])
	}
	var text string
	if json.Unmarshal(t, &text) != nil {
		masked := m.Text(string(t))
		return masked, masked != string(t)
	}
	if !m.Finds(text) {
		return "", false
	}
	again, err := json.Marshal(m.Text(text))
	if err != nil { // a string always encodes
		return `"[secret]"`, true
	}
	return string(again), true
}
