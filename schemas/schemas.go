// Package schemas holds the JSON Schema (2020-12) of every body on the wire and
// of every file people write, and asyncapi.yaml, which says on which subject
// each body travels.
//
// Names: `crumb.<type>` is a crumb or a delta (tool:call is crumb.tool.call),
// `wire.<type>` a command or an outcome (tool.call is wire.tool.call),
// `<noun>.<body>` what an endpoint takes or answers (dead.redrive), `claim` the
// record of the bucket claims, `file.<kind>` a file, `common` the shared
// definitions. A schema's $id is https://crumbmesh.dev/schemas/<name>.v1.json.
//
// Schemas of the wire are open: a reader ignores fields it does not know. Those
// of files are closed: an unknown key is a mistake. A body with `dataref` (a
// claim check) needs its base fields only.
package schemas

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// BaseURL is the prefix of every $id.
const BaseURL = "https://crumbmesh.dev/schemas/"

const (
	suffix = ".v1.json"
	common = "common"
)

//go:embed *.v1.json asyncapi.yaml
var files embed.FS

// compiled is every schema of Names but common, compiled at the first use.
var compiled = sync.OnceValues(compileAll)

// Names lists all schemas, sorted, `common` too.
func Names() []string {
	paths, _ := fs.Glob(files, "*"+suffix) // the pattern is constant, so it cannot be malformed
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = strings.TrimSuffix(p, suffix)
	}
	slices.Sort(names)
	return names
}

// Read returns the text of a schema. The error names the schemas there are.
func Read(name string) ([]byte, error) {
	text, err := files.ReadFile(name + suffix)
	if err != nil {
		return nil, fmt.Errorf("no schema %q: expected one of %s", name, strings.Join(Names(), ", "))
	}
	return text, nil
}

// AsyncAPI returns the text of asyncapi.yaml.
func AsyncAPI() []byte {
	text, _ := files.ReadFile("asyncapi.yaml") // embedded, so it cannot be missing
	return text
}

// NameOf returns the name of the schema of a body's type: `tool:call` is
// crumb.tool.call, `tool.call` wire.tool.call.
func NameOf(typ string) string {
	if strings.Contains(typ, ":") {
		return "crumb." + strings.ReplaceAll(typ, ":", ".")
	}
	return "wire." + typ
}

// ForType returns the compiled schema of a body's type. The error names the
// types there are.
func ForType(typ string) (*jsonschema.Schema, error) { return Compile(NameOf(typ)) }

// Compile returns a compiled schema; its $refs are resolved among the embedded
// files, never over the network. It may be used by many goroutines.
func Compile(name string) (*jsonschema.Schema, error) {
	all, err := compiled()
	if err != nil {
		return nil, err
	}
	schema, ok := all[name]
	if !ok {
		return nil, fmt.Errorf("no schema %q: expected one of %s", name, strings.Join(Names(), ", "))
	}
	return schema, nil
}

func compileAll() (map[string]*jsonschema.Schema, error) {
	c, err := NewCompiler(Read)
	if err != nil {
		return nil, err
	}
	all := map[string]*jsonschema.Schema{}
	for _, name := range Names() {
		if name == common {
			continue
		}
		if all[name], err = c.Compile(BaseURL + name + suffix); err != nil {
			return nil, fmt.Errorf("compile schema %s: %w", name, err)
		}
	}
	return all, nil
}

// NewCompiler returns a compiler that knows every schema of Names in the text
// that read gives for it and loads nothing else. Formats are asserted.
func NewCompiler(read func(name string) ([]byte, error)) (*jsonschema.Compiler, error) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseLoader(offline{})
	for _, name := range Names() {
		text, err := read(name)
		if err != nil {
			return nil, err
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("parse schema %s: %w", name, err)
		}
		if err := c.AddResource(BaseURL+name+suffix, doc); err != nil {
			return nil, fmt.Errorf("add schema %s: %w", name, err)
		}
	}
	return c, nil
}

// offline refuses every URL: all resources are embedded.
type offline struct{}

// Load implements jsonschema.URLLoader.
func (offline) Load(url string) (any, error) {
	return nil, fmt.Errorf("schema %s is not embedded", url)
}
