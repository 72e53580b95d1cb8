package conformance

import (
	"flag"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/conformance.md again")

const (
	root     = "../.."
	document = root + "/docs/conformance.md"
)

func TestTable_IsFresh(t *testing.T) {
	t.Parallel()
	sections, groups, pins := load(t)
	got := Document(sections, groups, pins)
	if *update {
		if err := os.WriteFile(document, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("docs/conformance.md is stale; run `make conformance` (- document, + tests):\n%s", diff)
	}
}

func TestTable_EveryPinIsACase(t *testing.T) {
	t.Parallel()
	sections, _, pins := load(t)
	for _, p := range Unknown(sections, pins) {
		t.Errorf("%s: %s names %s, which cases.txt does not have: correct the id, or add a line", p.Dir, p.Test, p.ID)
	}
}

func load(t *testing.T) ([]Section, []Group, []Pin) {
	t.Helper()
	sections, err := Sections()
	if err != nil {
		t.Fatal(err)
	}
	groups, err := Groups()
	if err != nil {
		t.Fatal(err)
	}
	pins, err := Scan(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	if len(pins) == 0 {
		t.Fatal("no test names a case: the scan is broken")
	}
	return sections, groups, pins
}

func TestScan_Names(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"pkg/a/a_test.go": {Data: []byte("package a\n" + `
func TestX_CF_P01_F007_both(t *testing.T) { helper("F001") }
func TestX_P1_isAParagraphHere(t *testing.T) {
	t.Run("F018 CF_H04 told", func(t *testing.T) {})
	_ = map[string]int{"F030 wrong kind": 1}
	_ = []row{{name: "F028 false"}}
}
func TestFollow_ST8_163_Restarts(t *testing.T) {}
func FuzzY_DA162(f *testing.F) {}
func notATest_F099() {}
func TestZ_F0123(t *testing.T) {}
`)},
		"internal/protocol/claim/c_test.go": {Data: []byte("package claim\nfunc TestClaim_P12_Rule(t *testing.T) {}\n")},
		"cmd/c/testdata/script/json.txtar":  {Data: []byte("# F165 output is JSON (CF-O08).\n# More.\ncrumb run\n# F166 not the first comment\n")},
		"cmd/c/testdata/a_test.go":          {Data: []byte("no go")},
		"pkg/a/a.go":                        {Data: []byte("package a\nfunc TestNot_F100() {}\n")},
		"internal/conformance/c_test.go":    {Data: []byte("package conformance\nfunc TestNot_F100(t *testing.T) {}\n")},
	}
	got, err := Scan(files)
	if err != nil {
		t.Fatal(err)
	}
	want := []Pin{
		{"CF-H04", "TestX_P1_isAParagraphHere/F018_CF_H04_told", "pkg/a"},
		{"CF-O08", "json.txtar", "cmd/c"},
		{"CF-P01", "TestX_CF_P01_F007_both", "pkg/a"},
		{"DA162", "FuzzY_DA162", "pkg/a"},
		{"DA163", "TestFollow_ST8_163_Restarts", "pkg/a"},
		{"F007", "TestX_CF_P01_F007_both", "pkg/a"},
		{"F018", "TestX_P1_isAParagraphHere/F018_CF_H04_told", "pkg/a"},
		{"F028", "TestX_P1_isAParagraphHere/F028_false", "pkg/a"},
		{"F030", "TestX_P1_isAParagraphHere/F030_wrong_kind", "pkg/a"},
		{"F165", "json.txtar", "cmd/c"},
		{"P12", "TestClaim_P12_Rule", "internal/protocol/claim"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestScan_SaysWhichFileIsBroken(t *testing.T) {
	t.Parallel()
	_, err := Scan(fstest.MapFS{"pkg/a/a_test.go": {Data: []byte("no go")}})
	if err == nil || !strings.Contains(err.Error(), "pkg/a/a_test.go") {
		t.Errorf("got %v, want an error that names the file", err)
	}
}

func TestDocument_States(t *testing.T) {
	t.Parallel()
	sections, err := parseSections("# S\nF001  one\nF002  two  @why\nF003  three\nF004  four  @why\n## More\nF005  five\nF006  six\n", "why  Because.\n")
	if err != nil {
		t.Fatal(err)
	}
	pins := []Pin{{"F001", "TestB", "b"}, {"F001", "TestA", "a"}, {"F001", "TestC", "b"}, {"F004", "TestD", "a"}, {"F006", "TestF", "a"}, {"F009", "TestE", "a"}}
	got := Document(sections, []Group{{"CF-K01", "Hooks", "Later."}}, pins)
	for _, line := range []string{
		"| S | 4 | 2 | 1 | 1 |",
		"| F001 | one | a: `TestA`<br>b: `TestB`, `TestC` |",
		"| F002 | two | *not yet:* Because. |",
		"| F003 | three | **open**: no test carries this id yet |",
		"| F004 | four | a: `TestD`<br>*in part:* Because. |",
		"| More | 1 | 1 | 0 | 0 |",
		"| F006 | six | a: `TestF` |",
		"| CF-K01 | Hooks | Later. |",
	} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("no line %q in:\n%s", line, got)
		}
	}
	if strings.Contains(got, "F005") {
		t.Error("F005 is beyond the promise and not pinned, and is shown all the same")
	}
	if diff := cmp.Diff([]Pin{{"F009", "TestE", "a"}}, Unknown(sections, pins)); diff != "" {
		t.Error(diff)
	}
}

func TestParse_Refuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ cases, reasons, want string }{
		"no section":       {"F001  one\n", "", "before the first section"},
		"twice":            {"# S\nF001  one\nF001  again\n", "", "twice"},
		"unknown reason":   {"# S\nF001  one  @why\n", "", "does not explain"},
		"unused reason":    {"# S\nF001  one\n", "why  Because.\n", "no case has"},
		"reason without @": {"# S\nF001  one  why\n", "why  Because.\n", "begins with @"},
		"no id":            {"# S\nX1  one\n", "", "want `ID  title"},
		"no title":         {"# S\nF001 one\n", "", "want `ID  title"},
		"bare reason":      {"# S\nF001  one\n", "why\n", "want `key  why`"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseSections(c.cases, c.reasons)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says %q", err, c.want)
			}
		})
	}
}
