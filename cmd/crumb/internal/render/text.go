package render

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// valueMax is how much of one value a line shows, in characters.
const valueMax = 100

// Plain makes foreign text safe to show: what is neither printable nor a plain
// line break or tab is written as an escape.
func Plain(s string) string { return plain(s, func(r rune) bool { return r == '\n' || r == '\t' }) }

// OneLine is Plain on one line: line breaks and tabs become spaces.
func OneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == '\t' {
			return ' '
		}
		return r
	}, s)
	return plain(s, func(rune) bool { return false })
}

// plain escapes what is not printable. Format characters (Cf), bidirectional
// overrides among them, are not printable to unicode.IsPrint.
func plain(s string, keep func(rune) bool) string {
	clean := utf8.ValidString(s)
	for _, r := range s {
		clean = clean && (unicode.IsPrint(r) || keep(r))
	}
	if clean {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) || keep(r) {
			b.WriteRune(r)
		} else {
			escape(&b, r)
		}
	}
	return b.String()
}

// Clip is OneLine cut to valueMax characters.
func Clip(s string) string { return cut(OneLine(s)) }

// Quote is Clip in quotation marks, with line breaks as escapes.
func Quote(s string) string { return strconv.Quote(cut(s)) }

func cut(s string) string {
	if utf8.RuneCountInString(s) <= valueMax {
		return s
	}
	return string([]rune(s)[:valueMax]) + "…"
}

// Duration is a number of milliseconds as people say it.
func Duration(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < time.Second:
		return strconv.FormatInt(ms, 10) + "ms"
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
