package core_test

import (
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// publisher is the pinned agent of the transcripts: tools of each effect, with
// and without arguments, two ask-gated, one human.
func publisher() core.Pinned {
	path := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer","default":5,"maximum":10}},"required":["path"]}`)
	title := json.RawMessage(`{"type":"object","properties":{"title":{"type":"string"}},"required":["title"]}`)
	draft := json.RawMessage(`{"type":"object","properties":{"draft":{"type":"string"}},"required":["draft"]}`)
	tool := func(name, group string, effect crumbs.Effect, schema json.RawMessage) agent.Entry {
		return agent.Entry{PermID: "tool:" + name, Leaf: "tool_" + name, Kind: agent.KindWorker, Group: group, Handler: name, ToolHash: hexHash,
			Schema: schema, Effect: effect, TimeoutMs: 60_000, Verdict: agent.VerdictAllow}
	}
	publish := tool("publish", "demo", crumbs.EffectOnce, title)
	publish.Verdict, publish.Rule = agent.VerdictAsk, "tool:publish"
	purge := tool("purge", "demo", crumbs.EffectOnce, json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"all":{"type":"boolean","default":true}}}`))
	purge.Verdict, purge.Rule = agent.VerdictAsk, "tool:p*"
	ping := tool("ping", "demo", crumbs.EffectPure, json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`))
	set := &agent.ToolSet{Entries: []agent.Entry{
		{PermID: "human:headline", Leaf: "human_headline", Kind: agent.KindHuman, Schema: draft, Verdict: agent.VerdictAllow,
			Human: &agent.Human{AnswerSchema: json.RawMessage(`{"type":"string"}`), Prompt: "Which headline?", ExpiresMs: 3_600_000}},
		tool("charge", "pay", crumbs.EffectOnce, title),
		ping,
		publish,
		purge,
		tool("read_document", "demo", crumbs.EffectPure, path),
		tool("word_count", "scripts", crumbs.EffectIdempotent, path),
	}}
	return core.Pinned{
		Agent: &agent.Definition{ID: "publisher", Model: agent.Model{Provider: "script", Model: "publisher"}, System: "You publish.",
			ErrorHandling: agent.ErrorHandling{Retry: &agent.Retry{Attempts: 3, BackoffMs: 500, BackoffMultiplier: 2}}},
		Tools: set, Timing: core.DefaultTiming(),
	}
}
