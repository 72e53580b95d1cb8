package durability_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/fleet"
	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// The groups of the tests' meshes; nobody ever works for idle.
const (
	groupBench = "bench"
	groupIdle  = "idle"
)

// scene is a fleet with a sink for one test.
type scene struct {
	*fleet.Fleet
	*sink
	t *testing.T
}

func topology() meshtest.Option {
	return meshtest.WithTopology([]string{groupBench, groupIdle}, []string{"script"})
}

// bubble plays a scene in virtual time.
func bubble(t *testing.T, play func(t *testing.T, s scene), opts ...meshtest.Option) {
	t.Helper()
	meshtest.Bubble(t, func(t *testing.T, m *meshtest.Mesh) {
		s := scene{fleet.New(t, m), newSink(), t}
		defer s.Close()
		play(t, s)
	}, append([]meshtest.Option{topology()}, opts...)...)
}

// quick is the settings of scenes in real time. A busy machine must not make the
// living look dead: AckWait and presence stay at seconds.
func quick(s *mesh.Settings) {
	s.AckWait, s.DuplicateWindow, s.PresenceTTL = 2*time.Second, 2*time.Second, 5*time.Second
}

// realTime plays a scene in real time.
func realTime(t *testing.T, opts ...meshtest.Option) scene {
	t.Helper()
	m := meshtest.Start(t, append([]meshtest.Option{topology(), meshtest.WithSettings(quick)}, opts...)...)
	return scene{fleet.New(t, m), newSink(), t}
}

// counted are the tools peek (pure), put (idempotent) and pay (once).
func (s scene) counted() []tool.Tool {
	return []tool.Tool{s.tool("peek", crumbs.EffectPure), s.tool("put", crumbs.EffectIdempotent), s.tool("pay", crumbs.EffectOnce)}
}

// apply makes agents the project, over an orchestrator that lives only for it.
func (s scene) apply(agents ...*agent.Definition) {
	s.t.Helper()
	o := s.Orchestrator()
	s.Apply([]string{groupBench, groupIdle}, agents...)
	o.Stop()
}

// call is one call of a scripted turn.
func call(name string) agent.ScriptCall { return agent.ScriptCall{Name: "tool_" + name} }

// question is a call of a human tool.
func question(name string) agent.ScriptCall { return agent.ScriptCall{Name: "human_" + name} }

func turn(text string, calls ...agent.ScriptCall) agent.Turn {
	return agent.Turn{Text: text, ToolCalls: calls}
}

// clerk is an agent that plays these turns, with those of the counted tools that
// the turns call.
func clerk(id crumbs.AgentID, turns ...agent.Turn) *agent.Definition {
	d := &agent.Definition{
		ID: id, Model: agent.Model{Provider: "script", Model: "main"}, Output: agent.Output{Format: agent.FormatText}, Steps: agent.Steps{Max: 20},
		Scripts: map[string]agent.Script{"main": {Turns: turns}},
	}
	for _, name := range []string{"peek", "put", "pay"} {
		calls := func(t agent.Turn) bool {
			return slices.ContainsFunc(t.ToolCalls, func(c agent.ScriptCall) bool { return c.Name == "tool_"+name })
		}
		if slices.ContainsFunc(turns, calls) {
			having(d, groupBench, name, "")
		}
	}
	return d
}

// asking makes an agent ask before it calls these tools.
func asking(d *agent.Definition, tools ...string) *agent.Definition {
	for _, name := range tools {
		d.Permissions.Ask = append(d.Permissions.Ask, "tool:"+name)
	}
	return d
}

// having gives an agent one more tool of a group.
func having(d *agent.Definition, group, name string, effect crumbs.Effect) *agent.Definition {
	d.Tools = append(d.Tools, agent.Tool{Name: name, Worker: &agent.Worker{Group: group, Tool: name}, Effect: effect})
	return d
}

// human gives an agent a question.
func human(d *agent.Definition, name string, expires time.Duration) *agent.Definition {
	d.Tools = append(d.Tools, agent.Tool{Name: name, Description: "Ask.", Schema: json.RawMessage(`{"type":"object"}`), Human: &agent.Human{ExpiresMs: expires.Milliseconds()}})
	return d
}

// timed changes the durations of a run.
func timed(change func(*orchestrator.Timing)) func(*orchestrator.Config) {
	return func(c *orchestrator.Config) {
		c.Timing = orchestrator.DefaultTiming()
		change(&c.Timing)
	}
}
