package argument

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// SchemaBytesMax bounds the text of one schema, in bytes.
const SchemaBytesMax = 256 << 10

// anyObject is the schema of a tool that declares none. Model providers insist
// on the type.
const anyObject = `{"type":"object"}`

// schemaURL is the base of a schema's own references; nothing is loaded from it.
const (
	schemaHome = "crumbmesh:///"
	schemaURL  = schemaHome + "schema"
)

// Schema is a compiled JSON Schema 2020-12. A schema that names an earlier
// draft in `$schema` (4 to 2019-09) is read by that draft's rules. `format` is
// an annotation from 2019-09 on, as those drafts say. It is immutable.
type Schema struct {
	raw     json.RawMessage
	root    *jsonschema.Schema
	bounded bool // no check needs its steps counted
}

// Compile reads a schema. Nil, empty and null accept any object. References
// inside the schema (`#/$defs/x`, anchors, `$id`) are followed, nothing is ever
// loaded. It returns INVALID_CONFIG, naming place and reason, for a schema that
// is no JSON, over SchemaBytesMax, outside the meta-schema, refers outward, has
// a pattern RE2 does not know, or has a default its own schema refuses.
func Compile(raw json.RawMessage) (*Schema, error) {
	text := bytes.TrimSpace(raw)
	if len(text) == 0 || string(text) == "null" {
		text = []byte(anyObject)
	}
	if len(text) > SchemaBytesMax {
		return nil, invalid("", fmt.Sprintf("too large: %d bytes, expected at most %d", len(text), SchemaBytesMax))
	}
	doc, p := document(text, false)
	if p != nil {
		return nil, invalid(p.path, p.text)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(closed{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, invalid("", place(err.Error()))
	}
	root, err := c.Compile(schemaURL)
	if err != nil {
		return nil, refused(doc, err)
	}
	s := &Schema{raw: bytes.Clone(text), root: root, bounded: bounded(root)}
	if err := s.checkDefaults(); err != nil {
		return nil, err
	}
	return s, nil
}

// Raw returns the text Compile read (without outer white space); for a schema
// that was absent, {"type":"object"}.
func (s *Schema) Raw() json.RawMessage { return bytes.Clone(s.raw) }

// closed loads nothing: a schema comes from a tool's author and must not make
// this process read files or call servers.
type closed struct{}

var errClosed = errors.New("only references inside the schema are followed")

func (closed) Load(string) (any, error) { return nil, errClosed }

// refused tells a compiler error in terms of the schema's own text.
func refused(doc any, err error) error {
	var outside *jsonschema.LoadURLError
	if errors.As(err, &outside) {
		return invalid("", fmt.Sprintf("it refers to %s: expected a reference inside the schema, like #/$defs/name", clip(strings.TrimPrefix(outside.URL, schemaHome))))
	}
	var misfit *jsonschema.ValidationError
	var wrapped *jsonschema.SchemaValidationError
	if errors.As(err, &wrapped) && errors.As(wrapped.Err, &misfit) {
		found := problems(doc, misfit, "the schema")
		return invalid(found[0].path, sentences(found)).With("problems", texts(found))
	}
	return invalid("", place(err.Error()))
}

// place drops our private base address from a compiler's message.
func place(text string) string {
	return clip(strings.ReplaceAll(strings.ReplaceAll(text, schemaURL, ""), schemaHome, ""))
}

func invalid(path, text string) *fault.Error {
	return fault.New(fault.InvalidConfig, "the JSON Schema is not usable: %s", text).With("path", path)
}
