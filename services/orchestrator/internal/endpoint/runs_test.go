package endpoint_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
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

// A list shows runs by what their records say in headers; records of older
// releases, which say no status there, are read. What is no record is left out.
func TestRunsList_OldAndNewRecords(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	conn := m.Connect("orchestrator")
	stop, err := (&endpoint.Endpoints{Conn: conn, Registry: registry.New(conn)}).Serve()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	at := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for i, status := range []core.Status{core.Suspended, core.Running, core.Suspended, core.Suspended} {
		s := core.State{Version: core.Version, Status: status, Run: core.Run{ID: crumbs.RunID(fmt.Sprintf("run_%d", i)), Agent: "clerk", StartedAt: crumbs.At(at.Add(time.Duration(i) * time.Second))}}
		body, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		head := s.Head()
		if i == 2 {
			delete(head, core.HeadStatus)
		}
		if _, err := conn.Bucket(crumbs.BucketRuns).Set(t.Context(), mesh.Write{Key: string(s.Run.ID), Value: body, Header: head}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Bucket(crumbs.BucketRuns).Put(t.Context(), "run_bad", []byte("no record")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		list crumbs.RunList
		want []crumbs.RunID
		more bool
	}{
		{crumbs.RunList{Status: "suspended"}, []crumbs.RunID{"run_3", "run_2", "run_0"}, false},
		{crumbs.RunList{Status: "suspended", Limit: 2}, []crumbs.RunID{"run_3", "run_2"}, true},
		{crumbs.RunList{}, []crumbs.RunID{"run_3", "run_2", "run_1", "run_0"}, false},
		{crumbs.RunList{AgentID: "other"}, nil, false},
	} {
		body, err := json.Marshal(c.list)
		if err != nil {
			t.Fatal(err)
		}
		var reply crumbs.RunListReply
		if err := m.Conn.Request(t.Context(), crumbs.EndpointRunsList, json.RawMessage(body), &reply); err != nil {
			t.Fatal(err)
		}
		var got []crumbs.RunID
		for _, r := range reply.Runs {
			got = append(got, r.RunID)
		}
		if !slices.Equal(got, c.want) || reply.Truncated != c.more {
			t.Errorf("%s: %v (more: %v), want %v (%v)", body, got, reply.Truncated, c.want, c.more)
		}
	}
}
