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
// part of, or the reverse, is close too.
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
		case len(word) > distancePart && (strings.Contains(c, lower) || strings.HasSuffix(lower, "_"+c)):
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

// distance is the number of letters to insert, delete or change (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
