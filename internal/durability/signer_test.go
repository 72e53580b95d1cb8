package durability_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/services/approvals"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// copiesTaken is how many copies of a decision that nobody believes are published: the
// first and those of worker.copiesMax.
const copiesTaken = 13

// The orchestrator does not believe the key of the approvals service. What is answered
// is refused, and whoever asks hears that, not that somebody should approve. Its copies
// end by themselves. Once its key is believed, the same answer given again ends the run.
func TestSigner_NobodyTrusts(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		key := decision.NewKey()
		s.Gateway()
		s.Approvals(func(c *approvals.Config) { c.Key, c.RepublishEvery = key, 20*time.Millisecond })
		s.apply(human(clerk("clerk", turn("", question("confirm")), turn("Done.")), "confirm", 6*24*time.Hour))
		replica := s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitSuspended("run_1")
		explain := func() (x crumbs.RunExplained) {
			if err := s.Mesh.Conn.Request(context.Background(), crumbs.EndpointRunsExplain, crumbs.RunGet{RunID: "run_1"}, &x); err != nil || len(x.WaitsFor) != 1 {
				t.Fatalf("%+v, %v", x, err)
			}
			return x
		}
		if x := explain(); x.WaitsFor[0].Decided != nil || x.Command != "crumb approvals answer run_1.1.0 VALUE" {
			t.Errorf("before the answer: %+v", x)
		}
		yes := decision.Answer{CheckpointID: "run_1.1.0", Outcome: crumbs.DecideAnswer, Response: json.RawMessage(`true`)}
		if _, err := s.Decide(yes); err != nil {
			t.Fatal(err)
		}
		letters := func() uint64 { held, _ := s.Stream(crumbs.StreamDead); return held }
		s.Until("it is refused", func() bool { return letters() > 0 })
		x := explain()
		d := x.WaitsFor[0].Decided
		if d == nil || d.KeyID != key.ID() || !d.Untrusted || d.Outcome != crumbs.DecideAnswer || d.By.Subject != "ada" || x.Command != "crumb dead list --run run_1" {
			t.Errorf("refused: %+v, %s", x.WaitsFor[0], x.Command)
		}
		for _, want := range []string{"confirm was decided", "signed with a key that nobody here trusts (kid " + key.ID() + ")", key.Public(), "crumb runs cancel run_1"} {
			if !strings.Contains(x.Advice, want) {
				t.Errorf("%q does not say %q", x.Advice, want)
			}
		}
		var view crumbs.MeshView
		if err := s.Mesh.Conn.Request(context.Background(), crumbs.EndpointMeshGet, struct{}{}, &view); err != nil {
			t.Fatal(err)
		}
		if view.Signer == nil || view.Signer.KeyID != key.ID() || !view.Signer.Untrusted || view.Signer.Public != key.Public() {
			t.Errorf("the mesh's signer is %+v", view.Signer)
		}
		if len(view.Refused) != 1 || view.Refused[0] != (crumbs.MeshAnswer{CheckpointID: "run_1.1.0", RunID: "run_1", KeyID: key.ID(), Untrusted: true}) {
			t.Errorf("refused answers: %+v", view.Refused)
		}
		<-time.After(5 * time.Minute)
		if n := letters(); n != copiesTaken {
			t.Errorf("%d copies were published, want %d", n, copiesTaken)
		}
		<-time.After(5 * time.Minute)
		if n := letters(); n != copiesTaken {
			t.Errorf("later %d copies were published", n)
		}
		replica.Stop()
		both, err := decision.NewVerifier(s.Key.Public(), key.Public())
		if err != nil {
			t.Fatal(err)
		}
		s.Orchestrator(func(c *orchestrator.Config) { c.Verify = both.Verify })
		if x := explain(); x.WaitsFor[0].Decided == nil || x.WaitsFor[0].Decided.Refused != "" || x.Command != "crumb doctor" {
			t.Errorf("believed: %+v", x)
		}
		if _, err := s.Decide(yes); err != nil {
			t.Fatal(err)
		}
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:answered")
		if n := letters(); n != copiesTaken {
			t.Errorf("%d letters at the end", n)
		}
	})
}
