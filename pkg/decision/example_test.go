package decision_test

import (
	"fmt"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// The approvals service signs, whoever acts on the decision verifies.
func Example() {
	key := decision.NewKey() // a service keeps its own: decision.LoadOrCreate(path)
	d := crumbs.Decision{
		Type: crumbs.TypeDecision, RunID: "run_1", CheckpointID: "run_1.2.1", Outcome: crumbs.DecideReject,
		By: crumbs.Principal{Issuer: "local", Subject: "ada"}, Via: decision.ViaCLI,
	}
	if err := key.Sign(&d); err != nil {
		fmt.Println(err)
		return
	}
	trusted, err := decision.NewVerifier(key.Public())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("as signed:", trusted.Verify(d))

	d.Outcome = crumbs.DecideApprove
	fmt.Println("changed:", fault.CodeOf(trusted.Verify(d)))
	// Output:
	// as signed: <nil>
	// changed: DECISION_INVALID
}
