package access_test

import (
	"cmp"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

var update = flag.Bool("update", false, "write the table of docs/security.md again")

const (
	page  = "../../../docs/security.md"
	begin = "<!-- roles: go test ./pkg/mesh/access -update -->\n"
	end   = "<!-- end of roles -->\n"
)

// table is the roles of a mesh of one group and one provider as the page has them.
func table() string {
	var b strings.Builder
	b.WriteString("| role (account), for | publishes and asks | hears | answers |\n|---|---|---|---|\n")
	for _, r := range (access.Mesh{Groups: []string{"G"}, Providers: []string{"P"}}).Roles() {
		uses := slices.Clone(r.Uses)
		for _, s := range r.Within {
			uses = append(uses, access.Use{Subject: s})
		}
		slices.SortFunc(uses, func(a, b access.Use) int { return cmp.Compare(a.Subject, b.Subject) })
		var subjects []string
		for _, u := range uses {
			subjects = append(subjects, strings.Replace(u.Subject, "$JS.API.", "JS.", 1))
		}
		if r.System {
			subjects = []string{"everything of the system account"}
		}
		b.WriteString("| **" + r.Name + "** (" + r.Account + "), " + r.For + " | " + code(slices.Compact(subjects)) + " | " + code(append(slices.Clone(r.Hears), r.Within...)) + " | " + code(append(slices.Clone(r.Serves), r.Within...)) + " |\n")
	}
	return b.String()
}

func code(subjects []string) string {
	if len(subjects) == 0 {
		return "–"
	}
	return "`" + strings.Join(subjects, "` `") + "`"
}

// The page tells what the configuration is made from.
func TestRoles_PageIsFresh(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the roles", page)
	}
	want := before + begin + table() + end + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Error("docs/security.md is not what the table says; go test ./pkg/mesh/access -update")
	}
}

// No role but the core's may make a consumer, look at whole streams that are not its
// own, or write where another role does.
func TestRoles_NobodyMakesConsumersOrSharesSubjects(t *testing.T) {
	t.Parallel()
	m := access.Mesh{Groups: []string{"a", "b"}, Providers: []string{"p", "q"}}
	writers := map[string]string{}
	for _, r := range m.Roles() {
		for _, u := range r.Uses {
			if r.Restricted() && (strings.Contains(u.Subject, "CONSUMER.CREATE") || strings.Contains(u.Subject, "STREAM.MSG.DELETE") || strings.Contains(u.Subject, "PURGE")) {
				t.Errorf("%s may %s", r.Name, u.Subject)
			}
			if strings.HasPrefix(u.Subject, "$JS.") || strings.HasPrefix(u.Subject, "crumbmesh.") || r.Name == access.RoleOrchestrator {
				continue
			}
			if other, taken := writers[u.Subject]; taken && other != r.Name {
				t.Errorf("%s and %s both write %s", r.Name, other, u.Subject)
			}
			writers[u.Subject] = r.Name
		}
	}
	if err := (access.Mesh{Groups: []string{"a", "a"}}).Check(); err == nil {
		t.Error("a group named twice passes")
	}
	if err := (access.Mesh{Groups: []string{"a.>"}}).Check(); err == nil {
		t.Error("a group with subject syntax in its name passes")
	}
}
