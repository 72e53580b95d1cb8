package agent

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// kind is what a node holds; its text is what messages call it.
type kind string

const (
	kindNull   kind = "null"
	kindBool   kind = "a boolean"
	kindNumber kind = "a number"
	kindString kind = "a string"
	kindList   kind = "a list"
	kindObject kind = "an object"
)

// first is the step of a place to the first item of a list.
const first = "[0]"

// node is a value of a file with the position of its first character.
type node struct {
	kind   kind
	line   int
	column int
	text   string // of a scalar; a number's is a JSON number exactly as written
	keys   []key  // of an object, in the file's order
	items  []*node
}

// key is a key of an object; its value is the item of the same index.
type key struct {
	name   string
	line   int
	column int
}

// field returns the value of a key of an object.
func (n *node) field(name string) (*node, bool) {
	for i, k := range n.keys {
		if k.name == name {
			return n.items[i], true
		}
	}
	return nil, false
}

// position is the line and column of what at names, or of the innermost thing
// around it that the file has: a missing field is reported at its object.
func (n *node) position(at place) (line, column int) {
	for _, s := range at {
		next := n.child(s)
		if next == nil {
			break
		}
		n = next
	}
	return n.line, n.column
}

func (n *node) child(step string) *node {
	if n.kind == kindObject {
		child, ok := n.field(step)
		if !ok && step == first { // a list of one may be written as its item
			return n
		}
		return child
	}
	i, err := strconv.Atoi(strings.Trim(step, "[]"))
	if n.kind != kindList || err != nil || i < 0 || i >= len(n.items) {
		return nil
	}
	return n.items[i]
}

// json writes n as JSON: keys in the file's order, numbers as written.
func (n *node) json() json.RawMessage {
	var b bytes.Buffer
	n.write(&b)
	return b.Bytes()
}

func (n *node) write(b *bytes.Buffer) {
	switch n.kind {
	case kindString:
		b.Write(jsonString(n.text))
	case kindList:
		b.WriteByte('[')
		for i, item := range n.items {
			separate(b, i)
			item.write(b)
		}
		b.WriteByte(']')
	case kindObject:
		b.WriteByte('{')
		for i, item := range n.items {
			separate(b, i)
			b.Write(jsonString(n.keys[i].name))
			b.WriteByte(':')
			item.write(b)
		}
		b.WriteByte('}')
	default:
		b.WriteString(n.text)
	}
}

func separate(b *bytes.Buffer, i int) {
	if i > 0 {
		b.WriteByte(',')
	}
}

// jsonString is s as a JSON string, its <, > and & as they are.
func jsonString(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return bytes.TrimRight(b.Bytes(), "\n")
}
