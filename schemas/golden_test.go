package schemas_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/crumbmesh/crumbmesh/schemas"
	"github.com/crumbmesh/crumbmesh/schemas/schematest"
)

const (
	validMin    = 1 // goldens of a schema that must pass
	tamperedMin = 2 // goldens of a schema that must fail
)

// golden is one file below testdata.
type golden struct {
	schema, name string
	text         []byte
}

func goldens(t *testing.T, kind string) []golden {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", kind, "*", "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("testdata/%s: no goldens (%v)", kind, err)
	}
	all := make([]golden, len(paths))
	for i, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = golden{schema: filepath.Base(filepath.Dir(path)), name: filepath.Base(path), text: text}
	}
	return all
}

func parse(t *testing.T, text []byte) any {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return doc
}

func TestGoldens_ValidPassOpenAndClosed(t *testing.T) {
	t.Parallel()
	for _, g := range goldens(t, "valid") {
		t.Run(g.schema+"/"+g.name, func(t *testing.T) {
			t.Parallel()
			schema, err := schemas.Compile(g.schema)
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(parse(t, g.text)); err != nil {
				t.Errorf("open: %v", err)
			}
			schematest.CheckName(t, g.schema, g.text)
		})
	}
}

func TestGoldens_TamperedFail(t *testing.T) {
	t.Parallel()
	valid := map[string][]any{}
	for _, g := range goldens(t, "valid") {
		valid[g.schema] = append(valid[g.schema], parse(t, g.text))
	}
	for _, g := range goldens(t, "tampered") {
		t.Run(g.schema+"/"+g.name, func(t *testing.T) {
			t.Parallel()
			schema, err := schemas.Compile(g.schema)
			if err != nil {
				t.Fatal(err)
			}
			doc := parse(t, g.text)
			if schema.Validate(doc) == nil {
				t.Error("passes its schema, must fail")
			}
			for _, v := range valid[g.schema] {
				if differences(v, doc) == 1 {
					return
				}
			}
			t.Error("differs from every valid golden in more than one thing")
		})
	}
}

// differences counts the places where two documents differ: a value, a key that
// one of them lacks, or a list of another length.
func differences(a, b any) int {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok {
			return 1
		}
		n := 0
		for key, value := range a {
			if other, ok := b[key]; ok {
				n += differences(value, other)
			} else {
				n++
			}
		}
		for key := range b {
			if _, ok := a[key]; !ok {
				n++
			}
		}
		return n
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return 1
		}
		n := 0
		for i := range a {
			n += differences(a[i], b[i])
		}
		return n
	}
	if reflect.DeepEqual(a, b) {
		return 0
	}
	return 1
}

func TestGoldens_EverySchemaHasThem(t *testing.T) {
	t.Parallel()
	have := map[string]map[string]int{"valid": {}, "tampered": {}}
	for kind, count := range have {
		for _, g := range goldens(t, kind) {
			count[g.schema]++
		}
	}
	names := map[string]bool{}
	for _, name := range schemas.Names() {
		if name == "common" {
			continue
		}
		names[name] = true
		if v, b := have["valid"][name], have["tampered"][name]; v < validMin || b < tamperedMin {
			t.Errorf("%s: %d valid and %d tampered goldens, want at least %d and %d", name, v, b, validMin, tamperedMin)
		}
	}
	for kind, count := range have {
		for name := range count {
			if !names[name] {
				t.Errorf("testdata/%s/%s: there is no such schema", kind, name)
			}
		}
	}
}

// A reader ignores a field it does not know; a closed schema refuses it, in the
// body and in what the body holds.
func TestClosed_RefusesUnknownFieldWhereOpenIgnoresIt(t *testing.T) {
	t.Parallel()
	for name, doc := range map[string]string{
		"wire.timer.due":     `{"type":"timer.due","runId":"r","v":1,"at":"2026-01-02T03:04:05.000Z","new":1}`,
		"wire.run.request":   `{"type":"run.request","new":1}`,
		"wire.run.start":     `{"type":"run.start","runId":"r","agentId":"a","parent":{"runId":"p","toolCallId":"p.1.0","new":1}}`,
		"wire.run.control":   `{"type":"run.control","runId":"r","controlId":"c","action":"pause","principal":{"iss":"i","sub":"s","new":1}}`,
		"crumb.agent.error":  `{"type":"agent:error","runId":"r","agentId":"a","seq":1,"timestamp":1,"durationMs":0,"error":{"code":"INVALID_INPUT","message":"m","new":1}}`,
		"crumb.text.delta":   `{"type":"text:delta","runId":"r","agentId":"a","sessionId":"s","seq":1,"timestamp":1,"attempt":1,"index":0,"delta":"","new":1}`,
		"crumb.tool.blocked": `{"type":"tool:blocked","runId":"r","agentId":"a","sessionId":"s","seq":1,"timestamp":1,"toolCallId":"r.1.0","toolName":"","reason":"limit","error":{"code":"TOOL_CALL_LIMIT","message":"m"},"limit":{"name":"n","value":1,"count":1,"new":1}}`,
		"wire.model.result":  `{"type":"model.result","runId":"r","callId":"r.1.m","step":1,"attempt":1,"status":"ok","model":{"provider":"p","model":"m"},"deltas":0,"durationMs":0,"message":{"role":"assistant","parts":[{"type":"text","text":"t","new":1}]}}`,
	} {
		schema, err := schemas.Compile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(parse(t, []byte(doc))); err != nil {
			t.Errorf("%s: open: %v", name, err)
		}
		if schematest.Validate(name, []byte(doc)) == nil {
			t.Errorf("%s: closed: passes with an unknown field", name)
		}
	}
}
