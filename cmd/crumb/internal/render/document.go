package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Value is a JSON document on one line, clipped; "" when there is none.
func Value(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return Clip(string(raw))
	}
	return cut(JSON(b.Bytes()))
}

// Document is a JSON document whole and indented, for a person who decides on it.
func Document(raw json.RawMessage, prefix string) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, prefix, "  ") != nil {
		return prefix + Plain(string(raw))
	}
	return prefix + JSON(b.Bytes())
}

// JSON is a JSON document of the same value as people read it: what is printable
// stands as itself, `&` and `<` and `é` too, whatever its writer escaped; control
// characters and bidirectional marks are escapes, whatever its writer did not.
// Line breaks between values stay.
func JSON(raw json.RawMessage) string {
	var b strings.Builder
	b.Grow(len(raw))
	for text := string(raw); text != ""; {
		r, size := next(text)
		switch {
		case size > utf8.UTFMax && readable(r): // an escape that need not be one
			b.WriteRune(r)
		case text[0] == '\\':
			b.WriteString(text[:size])
		case unicode.IsPrint(r), r == '\n':
			b.WriteRune(r) // a byte that is no UTF-8 as U+FFFD
		default:
			escape(&b, r)
		}
		text = text[size:]
	}
	return b.String()
}

// readable reports whether a character may stand for itself inside a JSON string.
func readable(r rune) bool {
	return unicode.IsPrint(r) && r != '"' && r != '\\' && r != utf8.RuneError
}

// Lengths of JSON's escapes.
const (
	shortEscape = 2 // \n
	longEscape  = 6 // \u000a
)

// next is the first character of a JSON text and the bytes it takes: those of its
// escape, where it is one.
func next(text string) (rune, int) {
	if text[0] != '\\' || len(text) < shortEscape {
		return utf8.DecodeRuneInString(text)
	}
	high, ok := unit(text)
	if !ok {
		return utf8.RuneError, shortEscape
	}
	if low, ok := unit(text[longEscape:]); ok && utf16.IsSurrogate(high) {
		if r := utf16.DecodeRune(high, low); r != unicode.ReplacementChar {
			return r, 2 * longEscape
		}
	}
	return high, longEscape
}

// unit is the UTF-16 unit of an escape \uXXXX that text begins with.
func unit(text string) (rune, bool) {
	if len(text) < longEscape || !strings.HasPrefix(text, `\u`) {
		return 0, false
	}
	n, err := strconv.ParseUint(text[shortEscape:longEscape], 16, 16)
	return rune(n), err == nil
}

// escape writes a character as JSON escapes it.
func escape(b *strings.Builder, r rune) {
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		fmt.Fprintf(b, "\\u%04x\\u%04x", high, low)
		return
	}
	fmt.Fprintf(b, "\\u%04x", r)
}
