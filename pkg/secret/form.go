package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// lineMin is the shortest line of a value of several lines that counts by itself.
const lineMin = 16

// values are the texts of a secret that are secret by themselves: all of it, its
// long lines, the password of a URL.
func values(value string) []string {
	out := []string{value, strings.TrimSpace(value)}
	if lines := strings.Split(value, "\n"); len(lines) > 1 {
		for _, line := range lines {
			// The marks of a PEM block stand around every key.
			if line = strings.TrimSpace(line); len(line) >= lineMin && !strings.HasPrefix(line, "-----") {
				out = append(out, line)
			}
		}
	}
	if password := passwordOf(value); Maskable(password) {
		out = append(out, password)
	}
	return out
}

// passwordOf is the password in a URL; of NATS also the token that stands there
// alone.
func passwordOf(value string) string {
	u, err := url.Parse(strings.TrimSpace(value))
	if err != nil || u.User == nil {
		return ""
	}
	password, ok := u.User.Password()
	if !ok && slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
		return u.User.Username()
	}
	return password
}

// forms are the ways in which programs write a value.
func forms(value string) []string {
	out := []string{value, inside(strconv.Quote(value))}
	for _, once := range escaped(value) {
		out = append(out, once)
		out = append(out, escaped(once)...)
	}
	query, path := url.QueryEscape(value), url.PathEscape(value)
	component := strings.ReplaceAll(query, "+", "%20") // what other languages make of a space
	for _, u := range []string{query, component, path} {
		whole := strings.ReplaceAll(u, "%2F", "/") // of a whole path
		out = append(out, u, lowerEscapes(u), whole, lowerEscapes(whole))
	}
	raw := []byte(value)
	out = append(out, hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)))
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		out = append(out, e.EncodeToString(raw))
		for before := range 3 {
			out = append(out, core(e, raw, before))
		}
	}
	return out
}

// escaped is a value as JSON strings have it, with `<`, `>` and `&` escaped and
// not.
func escaped(value string) []string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(value) != nil { // a string always encodes
		return nil
	}
	html, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return []string{inside(strings.TrimSuffix(b.String(), "\n")), inside(string(html))}
}

// inside is what a quoted text has between its quotes.
func inside(quoted string) string { return quoted[1 : len(quoted)-1] }

// lowerEscapes writes %2F as %2f.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToLower(string(b[i+1:i+3])))
			i += 2
		}
	}
	return string(b)
}

// core is the base64 of a value as it stands in the base64 of any text that has it
// after so many bytes (modulo 3), without the characters that its neighbours share.
func core(e *base64.Encoding, value []byte, before int) string {
	padded := append(make([]byte, before), value...)
	text := strings.TrimRight(e.EncodeToString(padded), "=")
	if len(padded)%3 != 0 {
		text = text[:len(text)-1] // its low bits are the next byte's
	}
	return text[(before*8+5)/6:]
}
