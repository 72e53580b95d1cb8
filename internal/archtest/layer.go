package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// layers are the floors of the house, the lowest first: a package imports its own
// floor and those under it. A folder of no floor is a violation, so that a new one
// is placed here on purpose.
var layers = []struct {
	folder string
	floor  int
}{
	{"schemas", 0},
	{"pkg", 1},
	{"examples", 2}, // what a user writes: sees what an application sees
	{"services", 2},
	{"cmd", 3},
	{"internal", 4}, // tests of the whole; production imports none of it (TestSupport)
	{"test", 4},
	{"bench", 4},
}

func floorOf(dir string) (int, bool) {
	for _, l := range layers {
		if below(dir, l.folder) {
			return l.floor, true
		}
	}
	return 0, false
}

// Layers holds cmd → services → pkg → schemas in production code. A test may look
// up: schemas are tested against Go types, a client against real services.
func Layers(t *Tree) []string {
	var out []string
	for _, f := range t.Files {
		floor, ok := floorOf(f.Dir)
		if !ok {
			out = append(out, fmt.Sprintf("%s: folder %s is on no floor; place it in layers", f.Path, f.Dir))
			continue
		}
		if f.Test {
			continue
		}
		for _, i := range f.Imports {
			dir, ours := local(i.Path)
			if !ours || below(dir, "internal") { // who sees internal/: TestSupport
				continue
			}
			if upper, ok := floorOf(dir); ok && upper > floor {
				out = append(out, fmt.Sprintf("%s: %s imports %s, which is above it (cmd → services → pkg → schemas)", f.at(i.Pos), f.Dir, dir))
			}
		}
	}
	return out
}

// testSupport are packages that exist for tests; production code imports none.
var testSupport = []string{"internal", "schemas/schematest", "services/modelgw/internal/worker/gatewaytest"}

func supportsTests(dir string) bool {
	return slices.ContainsFunc(testSupport, func(s string) bool { return below(dir, s) })
}

// TestSupport keeps test support out of production code.
func TestSupport(t *Tree) []string {
	var out []string
	for _, f := range t.Files {
		if f.Test || supportsTests(f.Dir) || below(f.Dir, "bench") {
			continue
		}
		for _, i := range f.Imports {
			if dir, ours := local(i.Path); ours && supportsTests(dir) {
				out = append(out, fmt.Sprintf("%s: %s is test support; production code may not import it", f.at(i.Pos), dir))
			}
		}
	}
	return out
}

// service is the service a folder belongs to.
func service(dir string) (string, bool) {
	rest, ok := strings.CutPrefix(dir, "services/")
	if !ok {
		return "", false
	}
	name, _, _ := strings.Cut(rest, "/")
	return name, true
}

// Services keeps services apart: none imports another, and what lies in a
// service's internal folder is seen by that service only.
func Services(t *Tree) []string {
	var out []string
	for _, f := range t.Files {
		mine, inService := service(f.Dir)
		for _, i := range f.Imports {
			dir, ours := local(i.Path)
			other, ok := service(dir)
			if !ours || !ok || (inService && other == mine) {
				continue
			}
			switch {
			case inService:
				out = append(out, fmt.Sprintf("%s: service %s imports service %s; services meet on the wire", f.at(i.Pos), mine, other))
			case dir != "services/"+other:
				out = append(out, fmt.Sprintf("%s: %s is internal to service %s", f.at(i.Pos), dir, other))
			}
		}
	}
	return out
}

// closed are packages whose imports of ours are listed completely.
var closed = []struct {
	folder  string
	imports []string
	why     string
}{
	{"schemas", nil, "the contract depends on nothing"},
	{"pkg/fault", nil, "the error type is a leaf"},
	{"pkg/perm", []string{"pkg/fault"}, "who may call what is decided by a pure package"},
	{"pkg/argument", []string{"pkg/fault"}, "arguments are filled, checked and hashed by a pure package"},
	{"pkg/hook/rule", []string{"pkg/crumbs", "pkg/fault"}, "what follows a hook is decided by a pure package"},
	{"pkg/secret", []string{"pkg/fault"}, "what is masked is decided by a pure package"},
	{"pkg/telemetry", nil, "tracing knows nothing of runs"},
	{"pkg/crumbs", []string{"pkg/fault", "schemas"}, "the wire contract is seen by everybody"},
	{"pkg/decision", []string{"pkg/argument", "pkg/crumbs", "pkg/fault"}, "a signature is checked without the mesh"},
	{"pkg/agent", []string{"pkg/argument", "pkg/crumbs", "pkg/fault", "pkg/perm"}, "definitions load without the mesh"},
	{"pkg/tool", []string{"pkg/agent", "pkg/argument", "pkg/crumbs", "pkg/fault", "pkg/secret"}, "a tool is written and tested without the mesh"},
	{"pkg/telemetry/instrument", nil, "what is measured is a table of names"},
	{"pkg/mesh", []string{"pkg/crumbs", "pkg/fault", "pkg/secret", "pkg/telemetry", "pkg/telemetry/instrument"}, "transport knows no runs"},
	{"test/chaos/internal/check", nil, "the judge shares no code with the judged"},
	{"internal/protocol", []string{"internal/protocol"}, "the models stand beside the code they check, not on it"},
	{"services/orchestrator/internal/core", []string{"pkg/agent", "pkg/argument", "pkg/crumbs", "pkg/fault", "pkg/hook/rule", "pkg/perm"}, "the run machine is pure"},
}

// Closed holds the packages that may import little, in their production files.
// For pkg/crumbs, pkg/mesh and pkg/tool this is the package itself; what lies
// below has imports of its own.
func Closed(t *Tree) []string {
	var out []string
	for _, c := range closed {
		for _, f := range t.Files {
			if f.Test || !inside(f.Dir, c.folder) {
				continue
			}
			for _, i := range f.Imports {
				dir, ours := local(i.Path)
				if ours && !slices.ContainsFunc(c.imports, func(a string) bool { return inside(dir, a) }) {
					out = append(out, fmt.Sprintf("%s: %s may import %v only (%s), not %s", f.at(i.Pos), c.folder, c.imports, c.why, dir))
				}
			}
		}
	}
	return out
}

func inside(dir, folder string) bool {
	return dir == folder || (folder == "internal/protocol" && below(dir, folder))
}
