package agent

import (
	"cmp"
	"slices"
	"strings"
)

const (
	closeMax     = 3   // spellings that a message proposes
	spellingMax  = 128 // bytes of a word that is compared; longer ones are like nothing
	distancePart = 3   // a word is close if at most a third of it must change
)

// closest returns the candidates that word may have been meant as, nearest
// first, then alphabetic, at most closeMax of them. A candidate that word is a
// part of, or that begins word, is close too.
func closest(word string, candidates []string) []string {
	if len(word) > spellingMax || word == "" {
		return nil
	}
	type near struct {
		name string
		far  int
	}
	var all []near
	lower := strings.ToLower(word)
	for _, c := range candidates {
		d := distance(lower, strings.ToLower(c))
		limit := max(1, max(len(word), len(c))/distancePart)
		switch {
		case d <= limit:
			all = append(all, near{c, d})
		case strings.HasSuffix(c, "_"+lower): // a tool's name without its scope
			all = append(all, near{c, d})
		case len(word) > distancePart && (strings.Contains(c, lower) || strings.HasPrefix(lower, c)):
			all = append(all, near{c, spellingMax + d})
		}
	}
	slices.SortFunc(all, func(a, b near) int { return cmp.Or(cmp.Compare(a.far, b.far), strings.Compare(a.name, b.name)) })
	var names []string
	for _, n := range all[:min(closeMax, len(all))] {
		names = append(names, n.name)
	}
	return names
}

// distance is the number of letters to insert, delete, change or swap with the
// next one (optimal string alignment).
func distance(a, b string) int {
	var before []int // two rows up
	above := make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := above[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, row[j]+1, above[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, above = above, row
	}
	return above[len(b)]
}
