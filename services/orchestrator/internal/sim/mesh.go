package sim

import (
	"encoding/json"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// The worker groups; deadGroup has none in a simulation with Faults.Dead.
const (
	group1    = "demo"
	deadGroup = "pay"
)

func groups() []string { return []string{group1, deadGroup} }

// questionTime is how long a question waits: shorter than a night.
const questionTime = 30 * time.Minute

// Pinned is the agent all runs of a simulation have: a tool of each effect in
// each group, one that is asked about, and a person's own. It fails with
// INVALID_CONFIG.
func Pinned() (core.Pinned, error) {
	schema := json.RawMessage(`{"type":"object"}`)
	var entries []agent.Entry
	tool := func(name, group string, effect crumbs.Effect) *agent.Entry {
		entries = append(entries, agent.Entry{PermID: "tool:" + name, Leaf: "tool_" + name, Kind: agent.KindWorker, Group: group, Handler: name,
			Schema: schema, Effect: effect, TimeoutMs: 120_000, Verdict: agent.VerdictAllow})
		return &entries[len(entries)-1]
	}
	entries = append(entries, agent.Entry{PermID: "human:ask", Leaf: "human_ask", Kind: agent.KindHuman, Schema: schema, Verdict: agent.VerdictAllow,
		Human: &agent.Human{ExpiresMs: questionTime.Milliseconds()}})
	tool("charge", deadGroup, crumbs.EffectOnce)
	tool("ping", group1, crumbs.EffectPure)
	publish := tool("publish", group1, crumbs.EffectOnce)
	publish.Verdict, publish.Rule = agent.VerdictAsk, "tool:publish"
	tool("put", deadGroup, crumbs.EffectIdempotent)
	tool("send", group1, crumbs.EffectOnce)
	set := &agent.ToolSet{Entries: entries}
	if err := set.Compile(); err != nil {
		return core.Pinned{}, err
	}
	timing := core.DefaultTiming()
	timing.Question = questionTime
	return core.Pinned{Tools: set, Timing: timing, Agent: &agent.Definition{ID: "agent", Model: agent.Model{Provider: "script", Model: "m"},
		ErrorHandling: agent.ErrorHandling{Retry: &agent.Retry{Attempts: 3, BackoffMs: 500, BackoffMultiplier: 2}}}}, nil
}

// stepsMax is the steps a run takes at most.
const stepsMax = 4

// turn is what the model answers in a step, always the same for a run.
func turn(run crumbs.RunID, step int) *crumbs.Message {
	m := &crumbs.Message{Role: crumbs.RoleAssistant, Parts: []crumbs.Part{{Type: crumbs.PartText, Text: "Well."}}}
	if step >= 2+int(fate(run, "steps")%2) {
		return m
	}
	leaves := []string{"tool_charge", "tool_ping", "tool_publish", "tool_put", "tool_send", "tool_send", "tool_charge", "human_ask"}
	for i := range 1 + fate(run, step, "calls")%3 {
		m.Parts = append(m.Parts, crumbs.Part{Type: crumbs.PartToolCall, ToolName: leaves[fate(run, step, i)%uint64(len(leaves))], Args: json.RawMessage(`{}`)})
	}
	return m
}
