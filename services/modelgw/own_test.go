package modelgw_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/modelgw"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/worker/gatewaytest"
)

// An agent's own instance stands in its revision: every gateway serves it, and one
// that the agent does not have is named with those it has.
func TestRun_OwnProviders(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		d := agent.Definition{ID: "publisher", Model: agent.Model{Provider: "rehearsal", Model: "main"},
			Providers: map[string]agent.Provider{"rehearsal": {Kind: agent.ScriptProvider}, "later": {Kind: "anthropic"}},
			Scripts:   map[string]agent.Script{"main": {Name: "main", Turns: []agent.Turn{{Text: "Own {{ .input.path }}.", Reasoning: "so"}}}}}
		body, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Conn.Bucket(crumbs.BucketAgents).Put(t.Context(), string(d.ID)+"."+d.Revision(), body); err != nil {
			t.Fatal(err)
		}
		defer start(t, b, modelgw.Config{})()
		send := func(run crumbs.RunID, provider string) gatewaytest.Answer {
			call := gatewaytest.Call(run)
			call.AgentRevision, call.Model.Provider = d.Revision(), provider
			b.SendTo(d.Queue(), call)
			return b.ResultOf(d.Queue())
		}
		r := send("run_1", "rehearsal")
		if r.Status != crumbs.StatusOK || r.Message.Parts[1].Text != "Own README.md." || r.Message.Parts[0].Provider != "rehearsal" || r.Model.Provider != "rehearsal" {
			t.Errorf("%+v %+v", r.ModelResult, r.Message)
		}
		if r := send("run_2", "other"); code(r) != fault.UnknownProvider || r.Retryable || !strings.Contains(r.Error.Message, `no provider "other" of its own`) || !strings.Contains(r.Error.Message, "[later, rehearsal]") {
			t.Errorf("an instance that is not there: %+v", r.Error)
		}
		if r := send("run_3", "later"); code(r) != fault.UnknownProvider || !strings.Contains(r.Error.Message, `of kind "anthropic"`) {
			t.Errorf("a kind of a later release: %+v", r.Error)
		}
		if r := send("run_4", "script"); code(r) != fault.UnknownProvider {
			t.Errorf("an instance of the project: %+v", r.Error)
		}
		present, err := b.Conn.Present(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		queues := map[string]bool{}
		for _, p := range present {
			queues[p.Queue] = p.Service == mesh.ServiceModels
		}
		if !queues[crumbs.ProviderOwn] || !queues[modelgw.ProviderScript] {
			t.Errorf("present: %+v", present)
		}
	})
}

func code(a gatewaytest.Answer) fault.Code {
	if a.Error == nil {
		return ""
	}
	return a.Error.Code
}
