package agent

import (
	"fmt"
	"slices"
	"strings"
)

// keywordsMax bounds the warnings about one schema: a document that is no schema
// at all has nothing but unknown keywords.
const keywordsMax = 10

// The keywords of JSON Schema 2020-12, with those of earlier drafts that schemas
// are still written with, by what stands under them.

// plainKeywords hold no schemas.
func plainKeywords() []string {
	return []string{
		"$schema", "$id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "$vocabulary", "$comment", "$recursiveRef", "$recursiveAnchor", "id",
		"type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
		"maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxContains", "minContains",
		"maxProperties", "minProperties", "required", "dependentRequired", "format",
		"contentEncoding", "contentMediaType", "title", "description", "default", "deprecated", "readOnly", "writeOnly", "examples",
	}
}

// schemaKeywords hold one schema, or a list of schemas.
func schemaKeywords() []string {
	return []string{
		"items", "prefixItems", "additionalItems", "contains", "additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties",
		"not", "if", "then", "else", "allOf", "anyOf", "oneOf", "contentSchema",
	}
}

// namedKeywords hold schemas by name.
func namedKeywords() []string {
	return []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
}

// extension begins keywords that are somebody's own and meant to be unknown.
const extension = "x-"

// keywords warns of keywords of a schema that no validator knows. JSON Schema
// lets them stand and ignores them, so `requird` or `minLenght` would let through
// what its author meant to refuse.
type keywords struct {
	plain, schemas, names []string
	found                 []unknownKeyword
}

// unknownKeyword is a keyword with its position.
type unknownKeyword struct {
	key  key
	text string
}

// unknownKeywords are the unknown keywords of the schema at a place of a file, in
// the file's order, keywordsMax of them.
func unknownKeywords(n *node, at place) []unknownKeyword {
	k := keywords{plain: plainKeywords(), schemas: schemaKeywords(), names: namedKeywords()}
	k.schema(n, at)
	return k.found
}

func (k *keywords) schema(n *node, at place) {
	if n.kind != kindObject {
		return
	}
	for i, key := range n.keys {
		value, here := n.items[i], at.key(key.name)
		switch {
		case slices.Contains(k.schemas, key.name):
			k.schema(value, here)
			k.each(value, here)
		case slices.Contains(k.names, key.name):
			k.named(value, here)
		case !slices.Contains(k.plain, key.name) && !strings.HasPrefix(key.name, extension):
			k.unknown(key, here)
		}
	}
}

// each checks the schemas of a list.
func (k *keywords) each(n *node, at place) {
	if n.kind != kindList {
		return
	}
	for i, item := range n.items {
		k.schema(item, at.index(i))
	}
}

// named checks the schemas of an object whose keys are names, not keywords.
func (k *keywords) named(n *node, at place) {
	if n.kind != kindObject {
		return
	}
	for i, item := range n.items {
		k.schema(item, at.key(n.keys[i].name))
	}
}

func (k *keywords) unknown(key key, at place) {
	if len(k.found) == keywordsMax {
		return
	}
	text := fmt.Sprintf("%s: %s is no keyword of JSON Schema and checks nothing%s", at, word(key.name), meant(key.name, slices.Concat(k.plain, k.schemas, k.names)))
	k.found = append(k.found, unknownKeyword{key: key, text: text})
}

// schemas warns of unknown keywords in the schemas of the agent's files.
func (a *folder) schemas(d *Definition) {
	a.keywords(agentFile, place{"inputSchema"})
	a.keywords(agentFile, place{"outputSchema"})
	for _, t := range d.Tools {
		for _, at := range []place{{"schema"}, {"outputSchema"}, {"human", "answerSchema"}} {
			a.keywords(toolFile(t.Name), at)
		}
	}
}

// keywords warns of the schema at a place of a file, if there is one.
func (a *folder) keywords(file string, at place) {
	s, ok := a.sources[file]
	if !ok || s.root == nil {
		return
	}
	n := s.root
	for _, step := range at {
		if n = n.child(step); n == nil {
			return
		}
	}
	for _, u := range unknownKeywords(n, at) {
		a.project.Warnings = append(a.project.Warnings, fmt.Sprintf("%s:%d:%d: %s", s.file, u.key.line, u.key.column, u.text))
	}
}
