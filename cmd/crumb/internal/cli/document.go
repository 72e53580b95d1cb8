package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/render"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// documentMax bounds what a flag's file or standard input may hold, in bytes:
// larger bodies the mesh would refuse.
const documentMax = 1 << 20

// readDocument turns the text of a flag into a JSON document: `@file` is the
// file's content, `-` standard input; what is JSON is taken as it is, what begins
// like an object or a list must be JSON, anything else is a text.
func (i *invocation) readDocument(flag, text string) (json.RawMessage, error) {
	switch {
	case text == "-":
		raw, err := readAtMost(i.std.In)
		if err != nil {
			return nil, unreadable(flag, "standard input", err)
		}
		text = raw
	case strings.HasPrefix(text, "@"):
		raw, err := readFile(text[1:])
		if err != nil {
			return nil, unreadable(flag, text[1:], err)
		}
		text = raw
	}
	if len(text) > documentMax {
		return nil, fault.New(fault.InvalidConfig, "%s: expected at most %d bytes", flag, documentMax)
	}
	doc, err := document(text)
	if err != nil {
		return nil, fault.New(fault.InvalidConfig, "%s: %s", flag, err)
	}
	return doc, nil
}

// document is text as JSON: itself when it is JSON, else a JSON string. A text
// that begins with { or [ and is no JSON is refused: it is nearly always JSON with
// a slip, which an agent would otherwise get as a text.
func document(text string) (json.RawMessage, error) {
	trimmed := strings.TrimSpace(text)
	err := json.Unmarshal([]byte(trimmed), new(json.RawMessage))
	switch {
	case err == nil:
		return json.RawMessage(trimmed), nil
	case strings.HasPrefix(trimmed, "{"), strings.HasPrefix(trimmed, "["):
		return nil, noJSON(trimmed, err)
	}
	return quoted(text), nil
}

// noJSON says where text stops being JSON.
func noJSON(text string, err error) error {
	const form = `, and what begins with { or [ must be JSON; to send it as a text, write it as a JSON string ("{…")`
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return fmt.Errorf("it is no JSON: %w%s", err, form)
	}
	before := text[:min(max(int(syntax.Offset)-1, 0), len(text))]
	if int(syntax.Offset) >= len(text) && strings.Contains(syntax.Error(), "unexpected end") {
		before = text
	}
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndex(before, "\n")+1:]) + 1
	return fmt.Errorf("it is no JSON at line %d, column %d, behind `%s`: %w%s", line, column, render.OneLine(tail(before)), syntax, form)
}

// tailMax is how much a message shows of what stands before a place, in characters.
const tailMax = 20

func tail(s string) string {
	if r := []rune(s); len(r) > tailMax {
		return "…" + string(r[len(r)-tailMax:])
	}
	return s
}

// quoted is text as a JSON string.
func quoted(text string) json.RawMessage {
	raw, err := json.Marshal(text)
	if err != nil {
		panic("a string does not marshal: " + err.Error())
	}
	return raw
}

func readFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	return readAtMost(f)
}

// readAtMost reads one byte more than documentMax at most.
func readAtMost(r io.Reader) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(r, documentMax+1))
	return string(raw), err
}

func unreadable(flag, what string, err error) error {
	return fault.Wrap(fault.InvalidConfig, err, "%s: cannot read %s: %v", flag, what, err)
}
