package render

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table is rows in aligned columns under a header.
type Table struct {
	Header []string
	Rows   [][]string
}

// Add appends a row. Cells are foreign text: they are made safe and clipped.
func (t *Table) Add(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = Clip(c)
	}
	t.Rows = append(t.Rows, row)
}

// Write writes the table; without rows it writes nothing.
func (t *Table) Write(w io.Writer) error {
	if len(t.Rows) == 0 {
		return nil
	}
	width := make([]int, len(t.Header))
	all := append([][]string{t.Header}, t.Rows...)
	for _, row := range all {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	for _, row := range all {
		var b strings.Builder
		for i, c := range row {
			b.WriteString(c)
			b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(c)+2))
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}
