package tool

import "github.com/crumbmesh/crumbmesh/pkg/agent"

// Announcement is what a worker of group tells the mesh about the tool.
func (t Tool) Announcement(group string) agent.Announcement {
	return agent.Announcement{
		Kind: t.kind, Points: t.points, AnswerSchema: t.human.AnswerSchema, Prompt: t.human.Prompt, ExpiresMs: t.human.ExpiresMs,
		Group: group, Handler: t.handlerName, Description: t.description,
		Schema: t.schemaRaw, OutputSchema: t.outputRaw, Effect: t.effect, Stream: t.stream,
		TimeoutMs: t.timeout.Milliseconds(), IdleTimeoutMs: t.idleTimeout.Milliseconds(),
		Digest: t.digest,
	}
}
