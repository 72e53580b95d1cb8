package prompt

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// imitation matches what a reader may take for the beginning or the end of a
// fence: any case and width, letters that look alike, characters that nobody sees
// in between, the bracket as it is or as JSON and HTML escape it.
var imitation = regexp.MustCompile(imitationPattern())

// imitationPattern builds the pattern letter by letter.
func imitationPattern() string {
	const unseen = `[\p{Cf}\p{Mn}\s]*`
	alike := map[rune]string{'t': "tｔтτ", 'o': "oｏоο0０", 'l': "lｌ1iｉӏі|", 'u': "uｕυս", 'p': "pｐрρ"}
	var b strings.Builder
	b.WriteString(`(?i)(?:<|＜|﹤|‹|〈|⟨|《|\\+u003c|&lt;?|&#0*60;?|&#x0*3c;?)(` + unseen + `(?:[/／\\∕⁄]` + unseen + `)*`)
	for _, r := range "tool-output" {
		if r == '-' {
			b.WriteString(`[-_‐‑‒–—―−－＿.·:]*` + unseen)
			continue
		}
		b.WriteString("[" + alike[r] + "]" + unseen)
	}
	b.WriteString(`)`)
	return b.String()
}

// harmless is a text in which nothing reads as a fence and everything can be seen.
// A JSON document stays one: brackets stand only in its strings.
func harmless(s string) string {
	s = reveal(s)
	if !mayImitate(s) { // most outputs: the pattern costs ten times as much as this
		return s
	}
	return imitation.ReplaceAllString(s, "(${1}")
}

// mayImitate reports texts with a bracket, as it is or escaped.
func mayImitate(s string) bool {
	return strings.ContainsAny(s, "<＜﹤‹〈⟨《&") || strings.Contains(s, `\u`) || strings.Contains(s, `\U`)
}

// reveal writes what nobody sees as {U+…}, so that a model and whoever looks at the
// prompt read the same.
func reveal(s string) string {
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			fmt.Fprintf(&b, "{U+%04X}", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// hidden reports characters that carry text, or change its order, unseen: tags,
// direction marks, control characters. Joiners, soft hyphens and variation
// selectors belong to writing.
func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\r' || r == '\t':
		return false
	case r >= 0xE0000 && r <= 0xE007F, r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return unicode.IsControl(r)
}
