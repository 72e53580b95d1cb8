package terminal

import (
	"io"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// Style colours text for one stream; the zero value leaves text alone. Colours
// are of the sixteen that every terminal has, so nothing is asked of it.
type Style struct{ on bool }

// StyleOf returns the style of a stream: colours only on a terminal that is not
// dumb, and not when NO_COLOR is set to anything.
func (s Stdio) StyleOf(w io.Writer) Style {
	if v, _ := s.Env("NO_COLOR"); v != "" {
		return Style{}
	}
	if v, _ := s.Env("TERM"); v == "dumb" {
		return Style{}
	}
	return Style{on: IsTerminal(w)}
}

// The sixteen colours used.
const (
	red    = "1"
	green  = "2"
	yellow = "3"
	cyan   = "6"
	grey   = "8"
)

func (s Style) paint(colour, text string) string {
	if !s.on || text == "" {
		return text
	}
	return lipgloss.NewStyle().Foreground(lipgloss.Color(colour)).Render(text)
}

// Bold stresses text.
func (s Style) Bold(text string) string {
	if !s.on || text == "" {
		return text
	}
	return lipgloss.NewStyle().Bold(true).Render(text)
}

// Bad is for what went wrong.
func (s Style) Bad(text string) string { return s.paint(red, text) }

// Good is for what ended well.
func (s Style) Good(text string) string { return s.paint(green, text) }

// Dim is for what matters less.
func (s Style) Dim(text string) string { return s.paint(grey, text) }

// Crumb colours the line of a crumb by its type.
func (s Style) Crumb(typ, line string) string {
	switch {
	case typ == crumbs.TypeAgentError, typ == crumbs.TypeToolErrored, typ == crumbs.TypeToolBlocked:
		return s.paint(red, line)
	case typ == crumbs.TypeRunEnded:
		return s.paint(green, line)
	case strings.HasPrefix(typ, "human:"):
		return s.paint(yellow, line)
	case typ == crumbs.TypeToolCalled, typ == crumbs.TypeToolResulted:
		return s.paint(cyan, line)
	case strings.HasSuffix(typ, "delta"), strings.HasSuffix(typ, "partial"), strings.HasPrefix(typ, "tool:input"):
		return s.paint(grey, line)
	}
	return line
}
