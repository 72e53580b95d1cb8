package cli

import (
	"encoding/json"
	"io"
	"os"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// documentMax bounds what a flag's file or standard input may hold, in bytes:
// larger bodies the mesh would refuse.
const documentMax = 1 << 20

// readDocument turns the text of a flag into a JSON document: `@file` is the
// file's content, `-` standard input; what is JSON is taken as it is, anything
// else is a text.
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
	return document(text), nil
}

// document is text as JSON: itself when it is JSON, else a JSON string.
func document(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(strings.TrimSpace(text))
	}
	return quoted(text)
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
