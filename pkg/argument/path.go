package argument

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// clipMax bounds, in bytes, a key, path or value quoted in a message.
const clipMax = 120

var plainKey = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$-]*$`)

// step is one level of a path: a key of an object or an index of an array.
type step struct {
	key   string
	index int
	item  bool
}

// render writes a path as people write it: filters[0].name; "" is the root.
func render(path []step) string {
	var b strings.Builder
	for _, s := range path {
		switch {
		case s.item:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case !plainKey.MatchString(s.key):
			b.WriteString("[" + strconv.Quote(clip(s.key)) + "]")
		case b.Len() > 0:
			b.WriteString("." + clip(s.key))
		default:
			b.WriteString(clip(s.key))
		}
		if b.Len() > 2*clipMax {
			return b.String() + "…"
		}
	}
	return b.String()
}

// steps resolves the tokens of a path in root, which tells indexes from keys.
func steps(root any, tokens []string) []step {
	path := make([]step, 0, len(tokens))
	at := root
	for _, t := range tokens {
		switch v := at.(type) {
		case []any:
			i, err := strconv.Atoi(t)
			path = append(path, step{index: i, item: true})
			at = nil
			if err == nil && i >= 0 && i < len(v) {
				at = v[i]
			}
		case map[string]any:
			path = append(path, step{key: t})
			at = v[t]
		default:
			path = append(path, step{key: t})
			at = nil
		}
	}
	return path
}

// clip shortens s for a message without cutting a character.
func clip(s string) string {
	if len(s) <= clipMax {
		return s
	}
	n := clipMax
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
