// Package render shows crumbs and other bodies to people: one crumb a line, the
// number, the type and what matters of it.
//
// What a tool, a model or a person wrote is data: control characters, escape
// sequences and bidirectional marks never reach the terminal, and a line stays
// one line whatever it holds. Long values are cut here; `--json` has them whole.
package render
