package toolexec

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/program"
)

// command is what the folder declares as a worker serves it: a tool, a hook or a
// parser. Its announcement is that of the project, digest included, so that calls
// assembled from the folder find it.
func command(conn *mesh.Conn, e agent.ExecTool) tool.Tool {
	a := e.Announcement
	opts := []tool.Option{tool.Effect(a.Effect), tool.Digest(a.Digest)}
	if a.TimeoutMs > 0 {
		opts = append(opts, tool.Timeout(time.Duration(a.TimeoutMs)*time.Millisecond))
	}
	p := program.Program{Command: e.Argv, Dir: e.Dir, Env: e.Env, Stream: a.Stream}
	switch {
	case a.Kind == agent.AnnouncedHook && e.NATS != "":
		return tool.NewHook(a.Handler, a.Points, ask(conn, e.NATS), append(opts, foreign(e.NATS))...)
	case a.Kind == agent.AnnouncedHook:
		return p.Hook(a.Handler, a.Points, opts...)
	case a.Kind == agent.AnnouncedParse:
		return p.Parser(a.Handler, opts...)
	}
	opts = append(opts, tool.Schema(a.Schema), tool.OutputSchema(a.OutputSchema))
	if a.IdleTimeoutMs > 0 {
		opts = append(opts, tool.IdleTimeout(time.Duration(a.IdleTimeoutMs)*time.Millisecond))
	}
	return p.Tool(a.Handler, a.Description, opts...)
}

// foreign refuses a subject of the mesh's own: a file must not forge a command.
func foreign(subject string) tool.Option {
	return func(*tool.Tool) error { return crumbs.CheckForeignSubject(subject) }
}

// ask is a hook whose answer comes from whoever listens on a subject: the body of the
// request is the input, the body of the reply the answer, an empty one no opinion.
// Whatever keeps the answer from coming is HOOK_ERROR.
func ask(conn *mesh.Conn, subject string) tool.Handler {
	return func(ctx tool.Context, args json.RawMessage, _ tool.Yield) (json.RawMessage, error) {
		reply, err := conn.Ask(ctx, subject, headers(ctx), args)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err() // the limit that fired is told
		case err != nil:
			return nil, fault.Wrap(fault.HookError, err, "the hook's subject: %s", fault.From(err).Message).With("subject", subject)
		case ctx.Hook.Point == crumbs.HookOnSuspend || len(reply) == 0:
			return json.RawMessage("null"), nil
		}
		return reply, nil
	}
}

// headers say of which call a request is; schemas/ describes the body.
func headers(ctx tool.Context) map[string]string {
	h := map[string]string{
		"crumb-run-id": string(ctx.RunID), "crumb-agent-id": string(ctx.AgentID), "crumb-session-id": string(ctx.SessionID),
		"crumb-call-id": string(ctx.CallID), "crumb-attempt": strconv.Itoa(ctx.Attempt),
		"crumb-hook-name": ctx.Hook.Name, "crumb-hook-point": ctx.Hook.Point,
	}
	if ctx.Principal != nil {
		if who, err := json.Marshal(ctx.Principal); err == nil {
			h["crumb-principal"] = string(who)
		}
	}
	return h
}
