package archtest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+(?:\([^()]*\)[^()\s]*)?)\)`)
	code    = regexp.MustCompile("`[^`\n]*`")
	remote  = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)
	heading = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
)

// Links finds links of documents that lead nowhere: files that are not there and
// headings that no document has. Addresses on the network are not asked.
func Links(t *Tree) []string {
	var out []string
	for _, d := range t.Documents {
		for n, line := range prose(d.Text) {
			for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
				if why := t.broken(d, m[1]); why != "" {
					out = append(out, fmt.Sprintf("%s:%d: %s", d.Path, n+1, why))
				}
			}
		}
	}
	return out
}

// prose is the lines of a document, those of code blocks empty.
func prose(text string) []string {
	lines := strings.Split(text, "\n")
	inCode := false
	for i, l := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(l), "```")
		if fence {
			inCode = !inCode
		}
		if inCode || fence {
			lines[i] = ""
		}
	}
	return lines
}

func (t *Tree) broken(d Document, target string) string {
	if remote.MatchString(target) {
		return ""
	}
	file, fragment, _ := strings.Cut(target, "#")
	name := d.Path
	if file != "" {
		name = path.Join(path.Dir(d.Path), file)
		if strings.HasPrefix(file, "/") || !fs.ValidPath(name) {
			return fmt.Sprintf("link %s leaves the repository", target)
		}
		if _, err := fs.Stat(t.root, name); err != nil {
			return fmt.Sprintf("link %s: there is no %s", target, name)
		}
	}
	i := slices.IndexFunc(t.Documents, func(d Document) bool { return d.Path == name })
	if fragment != "" && i >= 0 && !slices.Contains(anchors(t.Documents[i].Text), fragment) {
		return fmt.Sprintf("link %s: %s has no such heading", target, name)
	}
	return ""
}

// anchors are the names a document's headings get on GitHub.
func anchors(text string) []string {
	var out []string
	for _, line := range prose(text) {
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		name := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, m[1])
		out = append(out, name)
	}
	return out
}
