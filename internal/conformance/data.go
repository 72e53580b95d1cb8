package conformance

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed cases.txt
var casesText string

//go:embed reasons.txt
var reasonsText string

//go:embed later.txt
var laterText string

// Case is a line of cases.txt.
type Case struct {
	ID     string // CF-H15, F028, DA162, P1
	Title  string
	Reason string // why no test pins it, or not all of it; empty when tests do
}

// Section is a part of the document.
type Section struct {
	Title string
	Extra bool // beyond what was promised: only the pinned cases are shown
	Cases []Case
}

// Group is a part of the specification that belongs to a later release.
type Group struct{ IDs, Title, Reason string }

var (
	gap    = regexp.MustCompile(`\s{2,}`)
	caseID = regexp.MustCompile(`^(CF-[A-Z]\d{2}|F\d{3}|DA\d{3}|P\d{1,2})$`)
)

// Sections reads cases.txt with the reasons put in.
func Sections() ([]Section, error) { return parseSections(casesText, reasonsText) }

// Groups reads later.txt.
func Groups() ([]Group, error) {
	var out []Group
	for n, line := range lines(laterText) {
		parts := gap.Split(line, -1)
		if len(parts) != 3 {
			return nil, fmt.Errorf("later.txt, entry %d: want `ids  what  why` with two blanks between, got %q", n+1, line)
		}
		out = append(out, Group{IDs: parts[0], Title: parts[1], Reason: parts[2]})
	}
	return out, nil
}

// lines are the lines that are neither empty nor a comment.
func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, ";") {
			out = append(out, line)
		}
	}
	return out
}

func parseSections(cases, reasons string) ([]Section, error) {
	why := map[string]string{}
	for _, line := range lines(reasons) {
		key, text, ok := strings.Cut(line, "  ")
		if !ok {
			return nil, fmt.Errorf("reasons.txt: want `key  why`, got %q", line)
		}
		why[key] = strings.TrimSpace(text)
	}
	var out []Section
	seen, used := map[string]bool{}, map[string]bool{}
	for _, line := range lines(cases) {
		if marks, title, ok := strings.Cut(line, " "); ok && strings.Trim(marks, "#") == "" {
			out = append(out, Section{Title: title, Extra: marks == "##"})
			continue
		}
		c, key, err := parseCase(line)
		if err != nil {
			return nil, err
		}
		if len(out) == 0 {
			return nil, fmt.Errorf("cases.txt: %s stands before the first section", c.ID)
		}
		if seen[c.ID] {
			return nil, fmt.Errorf("cases.txt: %s stands there twice", c.ID)
		}
		if key != "" && why[key] == "" {
			return nil, fmt.Errorf("cases.txt: %s has the reason @%s, which reasons.txt does not explain", c.ID, key)
		}
		seen[c.ID], used[key], c.Reason = true, true, why[key]
		last := &out[len(out)-1]
		last.Cases = append(last.Cases, c)
	}
	for _, line := range lines(reasons) {
		if key, _, _ := strings.Cut(line, "  "); !used[key] {
			return nil, fmt.Errorf("reasons.txt: no case has the reason @%s", key)
		}
	}
	return out, nil
}

// parseCase reads `ID  title  [@reason]`; the key of the reason comes apart.
func parseCase(line string) (Case, string, error) {
	parts := gap.Split(line, -1)
	if len(parts) < 2 || len(parts) > 3 || !caseID.MatchString(parts[0]) {
		return Case{}, "", fmt.Errorf("cases.txt: want `ID  title  [@reason]` with two blanks between, got %q", line)
	}
	c, key := Case{ID: parts[0], Title: parts[1]}, ""
	if len(parts) == 3 {
		var ok bool
		if key, ok = strings.CutPrefix(parts[2], "@"); !ok {
			return Case{}, "", fmt.Errorf("cases.txt: %s: a reason begins with @, got %q", c.ID, parts[2])
		}
	}
	return c, key, nil
}
