package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// open is what stands for a case that belongs to the release and that nothing pins.
const open = "**open**: no test carries this id yet"

const preamble = `# Conformance

Which case of the specification is pinned by which test. A test pins a case by carrying its id in its name, so
` + "`grep -r CF_H15 --include='*_test.go' .`" + ` finds it; a test script
(.txtar) names it in the comment it begins with. The cases stand in
[internal/conformance/cases.txt](../internal/conformance/cases.txt); this page is written by ` + "`make conformance`" + `,
and a test fails when it is stale.

A case is *pinned* when a test carries its id, *not yet* when a reason says why nothing can, and *open* when it belongs to
this release and nothing pins it by name. A pinned case with a reason is pinned in part.
`

// Unknown are the pins whose id no line of cases.txt has: a slip of the pen, or a
// case to add there.
func Unknown(sections []Section, pins []Pin) []Pin {
	known := map[string]bool{}
	for _, s := range sections {
		for _, c := range s.Cases {
			known[c.ID] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(pins), func(p Pin) bool { return known[p.ID] })
}

// Document is docs/conformance.md.
func Document(sections []Section, groups []Group, pins []Pin) string {
	byID := map[string][]Pin{}
	for _, p := range pins {
		byID[p.ID] = append(byID[p.ID], p)
	}
	var body, summary strings.Builder
	summary.WriteString("\n| | cases | pinned | not yet | open |\n|---|--:|--:|--:|--:|\n")
	for _, s := range sections {
		cases := s.Cases
		if s.Extra {
			cases = slices.DeleteFunc(slices.Clone(cases), func(c Case) bool { return len(byID[c.ID]) == 0 })
		}
		var pinned, waiting, missing int
		fmt.Fprintf(&body, "\n## %s\n\n| case | what must hold | pinned by |\n|---|---|---|\n", s.Title)
		for _, c := range cases {
			switch {
			case len(byID[c.ID]) > 0:
				pinned++
			case c.Reason != "":
				waiting++
			default:
				missing++
			}
			fmt.Fprintf(&body, "| %s | %s | %s |\n", c.ID, c.Title, cell(c, byID[c.ID]))
		}
		fmt.Fprintf(&summary, "| %s | %d | %d | %d | %d |\n", s.Title, len(cases), pinned, waiting, missing)
	}
	body.WriteString("\n## Later releases\n\n| cases | what | why not yet |\n|---|---|---|\n")
	for _, g := range groups {
		fmt.Fprintf(&body, "| %s | %s | %s |\n", g.IDs, g.Title, g.Reason)
	}
	return preamble + summary.String() + body.String()
}

// cell names the tests of a case, by folder, and its reason.
func cell(c Case, pins []Pin) string {
	var out []string
	for _, run := range byFolder(pins) {
		tests := make([]string, len(run))
		for i, p := range run {
			tests[i] = "`" + p.Test + "`"
		}
		out = append(out, run[0].Dir+": "+strings.Join(tests, ", "))
	}
	switch {
	case c.Reason != "" && len(out) > 0:
		out = append(out, "*in part:* "+c.Reason)
	case c.Reason != "":
		out = append(out, "*not yet:* "+c.Reason)
	case len(out) == 0:
		return open
	}
	return strings.Join(out, "<br>")
}

func byFolder(pins []Pin) [][]Pin {
	sorted := slices.Clone(pins)
	slices.SortStableFunc(sorted, func(a, b Pin) int { return cmp.Compare(a.Dir, b.Dir) })
	var out [][]Pin
	for _, p := range sorted {
		if n := len(out); n > 0 && out[n-1][0].Dir == p.Dir {
			out[n-1] = append(out[n-1], p)
			continue
		}
		out = append(out, []Pin{p})
	}
	return out
}
