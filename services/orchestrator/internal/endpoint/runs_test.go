package endpoint_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/endpoint"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/registry"
)

// A list of a status that no run can have is refused, with those that there are:
// an empty list would be taken for an answer.
func TestRunsList_UnknownStatusIsRefused(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	conn := m.Connect("orchestrator")
	stop, err := (&endpoint.Endpoints{Conn: conn, Registry: registry.New(conn)}).Serve()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	list := func(status string) error {
		body, err := json.Marshal(crumbs.RunList{Status: status})
		if err != nil {
			t.Fatal(err)
		}
		var reply crumbs.RunListReply
		return m.Conn.Request(t.Context(), crumbs.EndpointRunsList, json.RawMessage(body), &reply)
	}
	for _, status := range []string{"", "running", "suspended", "stopping", "completed", "failed", "cancelled"} {
		if err := list(status); err != nil {
			t.Errorf("status %q: %v", status, err)
		}
	}
	for _, status := range []string{"bogus", "Running", strings.Repeat("x", 1000)} {
		err := list(status)
		if f := fault.From(err); fault.CodeOf(err) != fault.InvalidMessage || !strings.Contains(f.Message, "running suspended stopping completed failed cancelled") || len(f.Message) > 300 {
			t.Errorf("status %.20q: %v", status, err)
		}
	}
}
