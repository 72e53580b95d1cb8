package agent

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Bounds of a file. The YAML parser recurses and in places needs quadratic
// time, so they are enforced before it runs.
const (
	FileBytesMax  = 1 << 20 // 1 MiB
	depthMax      = 64      // lists and objects inside each other
	tokensMax     = 100_000 // names, values and marks of one file
	itemsMax      = 20_000  // dashes of one file
	blankLinesMax = 1_000   // empty lines in a row
)

var numberRE = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// textFault is what is wrong with a text at a position.
type textFault struct {
	line, column int
	err          *fault.Error
}

func badText(line, column int, format string, args ...any) *textFault {
	return &textFault{line: max(line, 1), column: max(column, 1), err: fault.New(fault.InvalidConfig, format, args...)}
}

func badToken(t *token.Token, format string, args ...any) *textFault {
	return badText(t.Position.Line, t.Position.Column, format, args...)
}

// parseYAML reads one document of the YAML subset of our files: no anchors,
// aliases, merge keys, tags, directives; keys are strings; numbers are JSON
// numbers. An empty file is an empty object.
func parseYAML(text []byte) (*node, *textFault) {
	if bad := readable(text); bad != nil {
		return nil, bad
	}
	tokens := lexer.Tokenize(strings.TrimPrefix(string(text), "\ufeff"))
	if bad := permitted(tokens); bad != nil {
		return nil, bad
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, syntaxFault(err)
	}
	bodies := make([]ast.Node, 0, 1)
	for _, d := range file.Docs {
		if d.Body != nil {
			bodies = append(bodies, d.Body)
		}
	}
	switch len(bodies) {
	case 0:
		return &node{kind: kindObject, line: 1, column: 1}, nil
	case 1:
		return build(bodies[0], 0)
	}
	return nil, badToken(bodies[1].GetToken(), "a second document: expected one document a file; remove the `---` and what follows, or make it a file of its own")
}

// readable checks what the lexer must not be given.
func readable(text []byte) *textFault {
	if len(text) > FileBytesMax {
		return badText(1, 1, "the file has %d bytes: expected at most %d", len(text), FileBytesMax)
	}
	line, blank := 1, 0
	for row := range strings.SplitSeq(string(text), "\n") {
		if !utf8.ValidString(row) || strings.ContainsRune(row, 0) {
			return badText(line, 1, "the line is not UTF-8 text: save the file as UTF-8")
		}
		blank++
		if strings.TrimSpace(row) != "" {
			blank = 0
		}
		if blank > blankLinesMax {
			return badText(line, 1, "more than %d empty lines in a row: remove some", blankLinesMax)
		}
		line++
	}
	return nil
}

// permitted checks what the parser must not be given, and what we do not take.
func permitted(tokens token.Tokens) *textFault {
	depth, row, onRow, items, headers := 0, 0, 0, 0, 0
	for i, t := range tokens {
		if i >= tokensMax {
			return badToken(t, "the file has more than %d names, values and marks: split it", tokensMax)
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth = max(depth-1, 0)
		case token.SequenceEntryType, token.MappingKeyType:
			if t.Position.Line != row {
				row, onRow = t.Position.Line, 0
			}
			onRow++
			items++
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			return badToken(t, "anchors, aliases and merge keys (& * <<) are not taken here: write the value out; a text that begins with & or * needs quotes")
		case token.TagType:
			return badToken(t, "tags (!) are not taken here: write the plain value; a text that begins with ! needs quotes")
		case token.DirectiveType:
			return badToken(t, "directives (%%) are not taken here: remove the line")
		case token.DocumentHeaderType:
			if headers++; headers > 1 {
				return badToken(t, "a second document: expected one document a file; remove the `---` and what follows, or make it a file of its own")
			}
		}
		if depth > depthMax || onRow > depthMax {
			return badToken(t, "more than %d lists and objects inside each other", depthMax)
		}
		if items > itemsMax {
			return badToken(t, "the file has more than %d list items: split it", itemsMax)
		}
	}
	return nil
}

// syntaxFault is the parser's complaint with its position.
func syntaxFault(err error) *textFault {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil {
		return badText(1, 1, "no YAML: %s", clip(firstLine(err.Error())))
	}
	text := e.GetMessage()
	if strings.Contains(text, "'\t'") || strings.Contains(text, "tab character") {
		line := e.GetToken().Position.Line
		return badToken(e.GetToken(), "no YAML: YAML indents with spaces, and line %d has a tab before its text: write spaces there", line)
	}
	if name, ok := strings.CutPrefix(text, "mapping key "); ok {
		text = "the key " + name + "; a key stands once"
	}
	return badToken(e.GetToken(), "no YAML: %s", clip(firstLine(text)))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// build turns the parser's tree into ours.
func build(n ast.Node, depth int) (*node, *textFault) {
	t := n.GetToken()
	if depth > depthMax {
		return nil, badToken(t, "more than %d lists and objects inside each other", depthMax)
	}
	out := &node{line: t.Position.Line, column: t.Position.Column, text: t.Value}
	switch v := n.(type) {
	case *ast.NullNode:
		out.kind, out.text = kindNull, "null"
	case *ast.BoolNode:
		out.kind, out.text = kindBool, fmt.Sprint(v.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		if !numberRE.MatchString(t.Value) {
			return nil, badToken(t, "%s is no JSON number: write it in decimal like 1500 or 0.5, or quote it to make it a text", quote(t.Value))
		}
		out.kind = kindNumber
	case *ast.StringNode:
		out.kind, out.text = kindString, v.Value
		// The parser takes 1e3 and integers beyond 64 bits for text; they are numbers in JSON and YAML 1.2.
		if t.Type == token.StringType && numberRE.MatchString(v.Value) {
			out.kind = kindNumber
		}
	case *ast.LiteralNode:
		out.kind, out.text = kindString, v.Value.Value
	case *ast.SequenceNode:
		return buildList(out, v, depth)
	case *ast.MappingNode:
		return buildObject(out, v, depth)
	case *ast.MappingValueNode:
		return buildObject(out, &ast.MappingNode{BaseNode: &ast.BaseNode{}, Values: []*ast.MappingValueNode{v}}, depth)
	default:
		return nil, badToken(t, "%s is not taken here: write plain values, lists and objects", quote(t.Value))
	}
	return out, nil
}

func buildList(out *node, v *ast.SequenceNode, depth int) (*node, *textFault) {
	out.kind, out.text = kindList, ""
	for _, item := range v.Values {
		child, bad := build(item, depth+1)
		if bad != nil {
			return nil, bad
		}
		out.items = append(out.items, child)
	}
	return out, nil
}

func buildObject(out *node, v *ast.MappingNode, depth int) (*node, *textFault) {
	out.kind, out.text = kindObject, ""
	seen := make(map[string]bool, len(v.Values))
	for i, pair := range v.Values {
		t := pair.Key.GetToken()
		name, ok := pair.Key.(*ast.StringNode)
		if !ok {
			return nil, badToken(t, "the key %s is not a text: quote it", quote(t.Value))
		}
		if seen[name.Value] {
			return nil, badToken(t, "the key %s stands twice: remove one", quote(name.Value))
		}
		seen[name.Value] = true
		child, bad := build(pair.Value, depth+1)
		if bad != nil {
			return nil, bad
		}
		if i == 0 && !v.IsFlowStyle { // a block's own token is its first colon
			out.line, out.column = t.Position.Line, t.Position.Column
		}
		out.keys = append(out.keys, key{name: name.Value, line: t.Position.Line, column: t.Position.Column})
		out.items = append(out.items, child)
	}
	return out, nil
}
