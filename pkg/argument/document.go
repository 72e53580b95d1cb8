package argument

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Bounds of a document.
const (
	BytesMax  = 8 << 20 // bytes of a document, before and after Fill
	DepthMax  = 128     // nested objects and arrays
	numberMax = 512     // characters of one number; float64 needs 309 before the point
)

// document reads doc strictly. Objects become map[string]any, numbers
// json.Number with their text. exact also refuses numbers that RFC 8785 cannot
// tell apart. A refusal is a sentence for whoever sent the document.
func document(doc []byte, exact bool) (any, *problem) {
	if len(doc) > BytesMax {
		return nil, &problem{text: fmt.Sprintf("too large: %d bytes, expected at most %d", len(doc), BytesMax)}
	}
	if !utf8.Valid(doc) {
		return nil, &problem{text: "invalid JSON: expected UTF-8 text"}
	}
	if p := syntax(doc); p != nil {
		return nil, p
	}
	r := reader{text: doc, exact: exact}
	return r.value()
}

// syntax says where doc stops being JSON, in our words: the decoder's own are
// of no use to a model.
func syntax(doc []byte) *problem {
	if json.Valid(doc) {
		return nil
	}
	if len(bytes.TrimSpace(doc)) == 0 {
		return &problem{text: "invalid JSON: expected a JSON value, got nothing"}
	}
	var bad *json.SyntaxError
	err := json.Unmarshal(doc, new(json.RawMessage))
	errors.As(err, &bad)
	// The decoder counts the byte that it refuses, so it is at Offset-1.
	if bad == nil || bad.Offset < 1 || bad.Offset > int64(len(doc)) {
		return &problem{text: "invalid JSON: it ends before its value does"}
	}
	at := int(bad.Offset) - 1
	if at == len(doc)-1 && !endsBadly(doc) {
		return &problem{text: "invalid JSON: it ends before its value does"}
	}
	char, _ := utf8.DecodeRune(doc[at:])
	return &problem{text: fmt.Sprintf("invalid JSON: unexpected %s at byte %d", strconv.QuoteRune(char), at+1)}
}

// endsBadly reports whether the last byte of doc is itself wrong, rather than
// followed by too little: then appending anything does not move the fault.
func endsBadly(doc []byte) bool {
	longer := append(bytes.Clone(doc), ' ')
	var e *json.SyntaxError
	return errors.As(json.Unmarshal(longer, new(json.RawMessage)), &e) && e.Offset == int64(len(doc))
}

// reader walks a text that is known to be valid JSON.
type reader struct {
	text  []byte
	at    int
	exact bool
	path  []step
}

func (r *reader) refuse(format string, args ...any) *problem {
	return &problem{path: render(r.path), text: fmt.Sprintf(format, args...)}
}

func (r *reader) space() {
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return
		}
	}
}

func (r *reader) value() (any, *problem) {
	r.space()
	switch c := r.text[r.at]; c {
	case '{':
		return r.object()
	case '[':
		return r.array()
	case '"':
		return r.str()
	case 't':
		r.at += len("true")
		return true, nil
	case 'f':
		r.at += len("false")
		return false, nil
	case 'n':
		r.at += len("null")
		return nil, nil
	default:
		return r.number()
	}
}

func (r *reader) deep() *problem {
	if len(r.path) >= DepthMax {
		return r.refuse("nested too deeply: expected at most %d levels", DepthMax)
	}
	return nil
}

func (r *reader) object() (any, *problem) {
	if p := r.deep(); p != nil {
		return nil, p
	}
	obj := map[string]any{}
	r.at++
	for r.space(); r.text[r.at] != '}'; r.space() {
		if r.text[r.at] == ',' {
			r.at++
			r.space()
		}
		key, p := r.str()
		if p != nil {
			return nil, p
		}
		r.path = append(r.path, step{key: key.(string)})
		if _, twice := obj[key.(string)]; twice {
			return nil, r.refuse("%s is given twice: send each key once", render(r.path))
		}
		r.space()
		r.at++ // the colon
		v, p := r.value()
		if p != nil {
			return nil, p
		}
		obj[key.(string)] = v
		r.path = r.path[:len(r.path)-1]
	}
	r.at++
	return obj, nil
}

func (r *reader) array() (any, *problem) {
	if p := r.deep(); p != nil {
		return nil, p
	}
	list := []any{}
	r.at++
	for r.space(); r.text[r.at] != ']'; r.space() {
		if r.text[r.at] == ',' {
			r.at++
		}
		r.path = append(r.path, step{index: len(list), item: true})
		v, p := r.value()
		if p != nil {
			return nil, p
		}
		list = append(list, v)
		r.path = r.path[:len(r.path)-1]
	}
	r.at++
	return list, nil
}

func (r *reader) str() (any, *problem) {
	start := r.at
	plain := true
	for r.at++; r.text[r.at] != '"'; r.at++ {
		if r.text[r.at] == '\\' {
			plain = false
			r.at++
		}
	}
	r.at++
	raw := r.text[start:r.at]
	if plain {
		return string(raw[1 : len(raw)-1]), nil
	}
	if !paired(raw) {
		return nil, r.refuse("%s holds half of a surrogate pair: send whole characters", r.here())
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, r.refuse("%s is not a JSON string", r.here())
	}
	return s, nil
}

func (r *reader) number() (any, *problem) {
	start := r.at
	for r.at < len(r.text) && isNumberByte(r.text[r.at]) {
		r.at++
	}
	text := string(r.text[start:r.at])
	if !representable(text) {
		return nil, r.refuse("%s is outside what a number can hold (%s): send it as a string", r.here(), clip(text))
	}
	if r.exact && !exact(text) {
		return nil, r.refuse("%s cannot be kept exactly (%s; integers go to 9007199254740991, decimals to about 15 digits): send it as a string", r.here(), clip(text))
	}
	return json.Number(text), nil
}

func (r *reader) here() string {
	if len(r.path) == 0 {
		return "the value"
	}
	return render(r.path)
}

func isNumberByte(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

// paired reports whether every \u escape of a surrogate in the quoted string
// has its other half: the decoder would replace a lone one silently.
func paired(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if raw[i] != 'u' {
			continue
		}
		switch unit(raw[i+1:]) & 0xFC00 {
		case 0xDC00:
			return false
		case 0xD800:
			if len(raw) < i+11 || raw[i+5] != '\\' || raw[i+6] != 'u' || unit(raw[i+7:])&0xFC00 != 0xDC00 {
				return false
			}
			i += 6
		}
		i += 4
	}
	return true
}

func unit(hex []byte) uint64 {
	u, _ := strconv.ParseUint(string(hex[:4]), 16, 16) // the text is valid JSON
	return u
}
