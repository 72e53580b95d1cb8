package mesh_test

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

var update = flag.Bool("update", false, "rewrite the table of docs/retention.md")

// The table that people read is the one that is made.
func TestRetention_TableOfTheDocs(t *testing.T) {
	t.Parallel()
	const file, begin, end = "../../docs/retention.md", "<!-- table -->\n", "<!-- end of table -->\n"
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(doc), begin)
	table, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no table between %q and %q", file, begin, end)
	}
	want := mesh.DefaultSettings().Table()
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("%s differs; run with -update\n--- doc\n%s--- made\n%s", file, table, want)
	}
}

func TestRetention_DefaultsHold(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]mesh.Settings{"default": mesh.DefaultSettings(), "dev": mesh.DevSettings(), "kept for 60 days": mesh.DefaultSettings().KeepCrumbs(60 * 24 * time.Hour)} {
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if mesh.QuestionMax.Milliseconds() != agent.ExpiresMsMax || mesh.RequestMax.Milliseconds() != agent.StartBeforeMsMax {
		t.Error("what files may ask for is not what is kept for it")
	}
}

// Each relation that something rests on is refused when it does not hold.
func TestRetention_RefusesWhatCannotHold(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for say, change := range map[string]func(*mesh.Settings){
		"the age of crumbs is 72h0m0s: expected at least 192h0m0s":             func(s *mesh.Settings) { *s = s.KeepCrumbs(3 * day) },
		"the time of finished records is 336h0m0s":                             func(s *mesh.Settings) { s.RunTTL = s.CrumbsAge },
		"the age of blobs is 480h0m0s: expected at least 696h0m0s":             func(s *mesh.Settings) { s.BlobsAge = 20 * day },
		"the age of blobs is 720h0m0s: expected at least 960h0m0s, since dead": func(s *mesh.Settings) { s.DeadAge = 40 * day },
		"the age of dead letters is 1h0m0s":                                    func(s *mesh.Settings) { s.DeadAge = time.Hour },
		"the time of claims is 24h0m0s":                                        func(s *mesh.Settings) { s.ClaimTTL = day },
		"the age of deltas":                                                    func(s *mesh.Settings) { s.DeltasAge = time.Second },
		"the time of a worker's presence":                                      func(s *mesh.Settings) { s.PresenceTTL = s.AckWait },
		"the wait for an ack":                                                  func(s *mesh.Settings) { s.AckWait = time.Millisecond },
		"the duplicate window":                                                 func(s *mesh.Settings) { s.DuplicateWindow = 0 },
		"the time of a fired timer":                                            func(s *mesh.Settings) { s.TimerTTL = time.Minute },
		"the time of a cancel":                                                 func(s *mesh.Settings) { s.TombstoneTTL = 0 },
		"the size of CRUMBS is 0 bytes":                                        func(s *mesh.Settings) { s.CrumbsBytes = 0 },
		"replicas: expected 1, 3 or 5, got 2":                                  func(s *mesh.Settings) { s.Replicas = 2 },
		"deliveries to workers: expected at least 1, got 0":                    func(s *mesh.Settings) { s.WorkerMaxDeliver = 0 },
	} {
		s := mesh.DefaultSettings()
		change(&s)
		if err := s.Check(); fault.CodeOf(err) != fault.InvalidConfig || !strings.Contains(err.Error(), say) {
			t.Errorf("got %v, want INVALID_CONFIG saying %q", err, say)
		}
	}
}

// Services act by the ages that the mesh was made with, and making it again keeps
// them.
func TestRetention_IsAdopted(t *testing.T) {
	t.Parallel()
	made := mesh.DevSettings().KeepCrumbs(20 * 24 * time.Hour)
	made.ClaimTTL = 72 * time.Hour
	m := meshtest.Start(t, meshtest.WithSettings(func(s *mesh.Settings) { *s = made }))
	service, again := m.Connect("service"), m.Connect("init")
	service.Settings, again.Settings = mesh.DefaultSettings(), mesh.DefaultSettings()
	if err := service.AdoptRetention(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := service.Settings; s.CrumbsAge != made.CrumbsAge || s.RunTTL != made.RunTTL || s.ClaimTTL != made.ClaimTTL || s.RunMax() != made.RunMax() {
		t.Errorf("a service acts by %+v", s)
	}
	if found, err := again.Adopt(t.Context()); err != nil || !found {
		t.Fatal(found, err)
	}
	if again.Settings != made {
		t.Errorf("made again with %+v, want %+v", again.Settings, made)
	}
}
