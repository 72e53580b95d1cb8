package schemas_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/schemas"
	"github.com/crumbmesh/crumbmesh/schemas/schematest"
)

// goTypes are the Go types of the bodies, by the type a body states.
func goTypes() map[string]reflect.Type {
	return map[string]reflect.Type{
		crumbs.TypeRunRequest:  reflect.TypeFor[crumbs.RunRequest](),
		crumbs.TypeRunControl:  reflect.TypeFor[crumbs.RunControl](),
		crumbs.TypeRunOrder:    reflect.TypeFor[crumbs.RunOrder](),
		crumbs.TypeTimerDue:    reflect.TypeFor[crumbs.TimerDue](),
		crumbs.TypeCtlCancel:   reflect.TypeFor[crumbs.CtlCancel](),
		crumbs.TypeModelCall:   reflect.TypeFor[crumbs.ModelCall](),
		crumbs.TypeModelResult: reflect.TypeFor[crumbs.ModelResult](),
		crumbs.TypeToolCall:    reflect.TypeFor[crumbs.ToolCall](),
		crumbs.TypeToolResult:  reflect.TypeFor[crumbs.ToolResult](),
		crumbs.TypeDecision:    reflect.TypeFor[crumbs.Decision](),

		crumbs.TypeRunStarted:    reflect.TypeFor[crumbs.RunStarted](),
		crumbs.TypeRunEnded:      reflect.TypeFor[crumbs.RunEnded](),
		crumbs.TypeAgentError:    reflect.TypeFor[crumbs.AgentError](),
		crumbs.TypeStepEnd:       reflect.TypeFor[crumbs.StepEnd](),
		crumbs.TypeToolCalled:    reflect.TypeFor[crumbs.ToolCalled](),
		crumbs.TypeToolResulted:  reflect.TypeFor[crumbs.ToolResulted](),
		crumbs.TypeToolErrored:   reflect.TypeFor[crumbs.ToolErrored](),
		crumbs.TypeToolBlocked:   reflect.TypeFor[crumbs.ToolBlocked](),
		crumbs.TypeHumanRequired: reflect.TypeFor[crumbs.HumanRequired](),
		crumbs.TypeHumanResumed:  reflect.TypeFor[crumbs.HumanResumed](),
		crumbs.TypeHookErrored:   reflect.TypeFor[crumbs.HookErrored](),
		crumbs.TypeFileGenerated: reflect.TypeFor[crumbs.FileGenerated](),

		crumbs.TypeTextDelta:      reflect.TypeFor[crumbs.TextDelta](),
		crumbs.TypeReasoningDelta: reflect.TypeFor[crumbs.TextDelta](),
		crumbs.TypeInputStart:     reflect.TypeFor[crumbs.InputDelta](),
		crumbs.TypeInputDelta:     reflect.TypeFor[crumbs.InputDelta](),
		crumbs.TypeInputEnd:       reflect.TypeFor[crumbs.InputDelta](),
		crumbs.TypeResultPartial:  reflect.TypeFor[crumbs.ResultPartial](),
	}
}

// endpointTypes are the Go types of the bodies of endpoints, by schema: they state no
// type.
func endpointTypes() map[string]reflect.Type {
	return map[string]reflect.Type{
		"hook.input":  reflect.TypeFor[crumbs.HookInput](),
		"hook.answer": reflect.TypeFor[crumbs.HookAnswer](),

		"mesh.view":      reflect.TypeFor[crumbs.MeshView](),
		"runs.get":       reflect.TypeFor[crumbs.RunGet](),
		"runs.explained": reflect.TypeFor[crumbs.RunExplained](),

		"dead.list":    reflect.TypeFor[crumbs.DeadList](),
		"dead.page":    reflect.TypeFor[crumbs.DeadPage](),
		"dead.get":     reflect.TypeFor[crumbs.DeadGet](),
		"dead.letter":  reflect.TypeFor[crumbs.DeadLetter](),
		"dead.edit":    reflect.TypeFor[crumbs.DeadEdit](),
		"dead.redrive": reflect.TypeFor[crumbs.DeadRedrive](),
		"dead.answer":  reflect.TypeFor[crumbs.DeadAnswer](),
		"dead.close":   reflect.TypeFor[crumbs.DeadClose](),
		"dead.receipt": reflect.TypeFor[crumbs.DeadReceipt](),
	}
}

// untyped are the schemas that no struct of pkg/crumbs stands for: the bodies of
// child runs, the record of a bucket, and files.
func untyped() []string {
	return []string{"claim", "common", "file.agent", "file.project", "file.script", "file.tool", "wire.run.child", "wire.run.start"}
}

func bodyTypes() []string { return slices.Sorted(maps.Keys(goTypes())) }

func TestContract_EverySchemaHasItsGoType(t *testing.T) {
	t.Parallel()
	want := slices.AppendSeq(untyped(), maps.Keys(endpointTypes()))
	for _, typ := range bodyTypes() {
		want = append(want, schemas.NameOf(typ))
	}
	slices.Sort(want)
	if got := schemas.Names(); !slices.Equal(got, want) {
		t.Errorf("schemas are\n%v\nGo types and untyped ones are\n%v", got, want)
	}
	for _, typ := range append(crumbs.CrumbTypes(), crumbs.DeltaTypes()...) {
		if goTypes()[typ] == nil {
			t.Errorf("%s has no Go type here", typ)
		}
	}
}

// What a struct reads it writes again, in every valid golden of its type.
func TestContract_GoldensRoundTrip(t *testing.T) {
	t.Parallel()
	byName := endpointTypes()
	for typ, goType := range goTypes() {
		byName[schemas.NameOf(typ)] = goType
	}
	done := map[string]bool{}
	for _, g := range goldens(t, "valid") {
		goType := byName[g.schema]
		if goType == nil {
			continue
		}
		done[g.schema] = true
		if object, _ := parse(t, g.text).(map[string]any); object["dataref"] != nil {
			carrier := carrierOf(g.schema)
			if carrier == nil {
				continue
			}
			goType = carrier
		}
		t.Run(g.schema+"/"+g.name, func(t *testing.T) {
			t.Parallel()
			value := reflect.New(goType).Interface()
			if err := json.Unmarshal(g.text, value); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			schematest.CheckName(t, g.schema, text)
			if !reflect.DeepEqual(parse(t, g.text), parse(t, text)) {
				t.Errorf("read\n%s\nwrote\n%s", g.text, text)
			}
		})
	}
	if len(done) != len(byName) {
		t.Errorf("%d of %d Go types have a golden", len(done), len(byName))
	}
}

// carrierOf is the struct that carries a claim check of a crumb or a delta; the
// claim checks of commands are written by hand.
func carrierOf(schema string) reflect.Type {
	switch {
	case strings.HasPrefix(schema, "wire."):
		return nil
	case schema == "crumb.tool.result.partial":
		return reflect.TypeFor[crumbs.DeltaBase]()
	default:
		return reflect.TypeFor[crumbs.Base]()
	}
}

// A field in Go and not in the schema fails, and the reverse, at every depth.
func TestContract_SameFieldsInGoAndSchema(t *testing.T) {
	t.Parallel()
	byGo := map[reflect.Type][]*jsonschema.Schema{} // one struct may serve several types
	for _, typ := range bodyTypes() {
		schema, err := schemas.ForType(typ)
		if err != nil {
			t.Fatal(err)
		}
		byGo[goTypes()[typ]] = append(byGo[goTypes()[typ]], schema)
	}
	for name, goType := range endpointTypes() {
		schema, err := schemas.Compile(name)
		if err != nil {
			t.Fatal(err)
		}
		byGo[goType] = append(byGo[goType], schema)
	}
	for goType, list := range byGo {
		t.Run(goType.Name(), func(t *testing.T) {
			t.Parallel()
			compare(t, goType.Name(), goType, list)
		})
	}
}

// compare holds a struct to the schemas that describe it.
func compare(t *testing.T, path string, goType reflect.Type, list []*jsonschema.Schema) {
	t.Helper()
	inSchema := map[string][]*jsonschema.Schema{}
	required := map[string]bool{}
	for _, s := range list {
		collect(s, inSchema, required)
	}
	inGo := jsonFields(goType)
	for _, name := range slices.Sorted(maps.Keys(inGo)) {
		subs, ok := inSchema[name]
		if !ok {
			t.Errorf("%s.%s is in Go and not in the schema", path, name)
			continue
		}
		field := inGo[name]
		if required[name] && field.dropsZero && accepts(subs, field.Type) {
			t.Errorf("%s.%s is required, yet Go drops its zero value, which the schema allows", path, name)
		}
		if elem := structOf(field.Type); elem != nil {
			compare(t, path+"."+name, elem, items(subs))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(inSchema)) {
		if _, ok := inGo[name]; !ok {
			t.Errorf("%s.%s is in the schema and not in Go", path, name)
		}
	}
}

// collect gathers the properties of s and of what s is composed of.
func collect(s *jsonschema.Schema, into map[string][]*jsonschema.Schema, required map[string]bool) {
	if s == nil {
		return
	}
	for name, sub := range s.Properties {
		into[name] = append(into[name], sub)
	}
	for _, name := range s.Required {
		required[name] = true
	}
	for _, part := range slices.Concat([]*jsonschema.Schema{s.Ref, s.Then, s.Else}, s.AllOf, s.AnyOf, s.OneOf) {
		collect(part, into, required)
	}
}

// items unwraps the schemas of lists and maps.
func items(list []*jsonschema.Schema) []*jsonschema.Schema {
	all := make([]*jsonschema.Schema, 0, len(list))
	for _, s := range list {
		if values, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
			s = values
		} else if s.Items2020 != nil {
			s = s.Items2020
		}
		all = append(all, s)
	}
	return all
}

// accepts reports whether all the schemas of a field take the zero value of its
// type, for the kinds whose zero value omitempty drops and a reader may mean.
func accepts(list []*jsonschema.Schema, goType reflect.Type) bool {
	var zero any
	switch goType.Kind() {
	case reflect.String:
		zero = ""
	case reflect.Int, reflect.Int64, reflect.Uint64:
		zero = json.Number("0")
	case reflect.Bool:
		zero = false
	default:
		return false
	}
	for _, s := range list {
		if s.Validate(zero) != nil {
			return false
		}
	}
	return true
}

type jsonField struct {
	reflect.Type
	dropsZero bool
}

// jsonFields lists the fields of a struct as encoding/json sees them.
func jsonFields(goType reflect.Type) map[string]jsonField {
	fields := map[string]jsonField{}
	for _, f := range reflect.VisibleFields(goType) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "" || name == "-" {
			continue
		}
		if _, ok := fields[name]; ok && len(f.Index) > 1 {
			continue // an outer field shadows it
		}
		fields[name] = jsonField{Type: f.Type, dropsZero: strings.Contains(options, "omitempty")}
	}
	return fields
}

// structOf returns the struct behind pointers, lists and maps, or nil.
func structOf(goType reflect.Type) reflect.Type {
	for goType.Kind() == reflect.Pointer || goType.Kind() == reflect.Slice || goType.Kind() == reflect.Map {
		goType = goType.Elem()
	}
	if goType.Kind() != reflect.Struct || goType == reflect.TypeFor[crumbs.Time]() {
		return nil
	}
	return goType
}

// A value with every field filled fits its closed schema, with and without the
// claim check; so types and grammars agree too.
func TestContract_FullValuesFitClosedSchemas(t *testing.T) {
	t.Parallel()
	for _, typ := range bodyTypes() {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			for _, value := range full(t, typ, goTypes()[typ]) {
				text, err := json.Marshal(value.Interface())
				if err != nil {
					t.Fatal(err)
				}
				schematest.Check(t, text)
				var bare map[string]json.RawMessage
				if err := json.Unmarshal(text, &bare); err != nil {
					t.Fatal(err)
				}
				delete(bare, "dataref")
				if text, err = json.Marshal(bare); err != nil {
					t.Fatal(err)
				}
				schematest.Check(t, text)
			}
		})
	}
}

func TestContract_CodesAreTheCatalogue(t *testing.T) {
	t.Parallel()
	text, err := schemas.Read("common")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Defs struct {
			Code struct {
				Enum []fault.Code `json:"enum"`
			}
		} `json:"$defs"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var codes []fault.Code
	for _, entry := range fault.Catalogue() {
		codes = append(codes, entry.Code)
	}
	if !slices.Equal(doc.Defs.Code.Enum, codes) {
		t.Errorf("common.v1.json lists\n%v\nthe catalogue is\n%v", doc.Defs.Code.Enum, codes)
	}
}

// The grammars of ids are written twice, as patterns and in pkg/crumbs.
func TestContract_IdGrammarsAgree(t *testing.T) {
	t.Parallel()
	samples := []string{"", "a", "A", "a-b", "a_b", "1", "-", "a.b", "a.1.0", "a.1.m", "a.1.0h2", "a.1.h1", "a.0.r1", "a.1.x1", "a.01.0", "a.1.m1",
		"a.1.", "a..0", "a.1.0.1", "a b", "a\n", "*", ">", "é", strings.Repeat("a", 32), strings.Repeat("a", 33), strings.Repeat("a", 64),
		strings.Repeat("a", 65), strings.Repeat("a", 64) + ".1.0", strings.Repeat("a", 65) + ".1.0", "a.1234567890.0"}
	for def, check := range map[string]func(string) error{
		"RunID":   func(s string) error { return crumbs.CheckRunID("run", s) },
		"AgentID": crumbs.CheckAgentID,
		"Name":    func(s string) error { return crumbs.CheckName("tool", s) },
		"CallID":  func(s string) error { return crumbs.CheckCallID(crumbs.CallID(s)) },
	} {
		c, err := schemas.NewCompiler(schemas.Read)
		if err != nil {
			t.Fatal(err)
		}
		schema, err := c.Compile(schemas.BaseURL + "common.v1.json#/$defs/" + def)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range samples {
			if byGo, bySchema := check(s) == nil, schema.Validate(s) == nil; byGo != bySchema {
				t.Errorf("%s %q: Go says %t, the schema %t", def, s, byGo, bySchema)
			}
		}
	}
}

func TestSchemas_UnknownNameIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "wire.tool", "../schemas", "common.v1.json"} {
		if _, err := schemas.Read(name); err == nil || !strings.Contains(err.Error(), "wire.tool.call") {
			t.Errorf("Read(%q): got %v, want an error that names the schemas there are", name, err)
		}
		if _, err := schemas.Compile(name); err == nil {
			t.Errorf("Compile(%q) succeeds", name)
		}
	}
	if _, err := schemas.ForType("tool:calls"); err == nil {
		t.Error("ForType of an unknown type succeeds")
	}
}
