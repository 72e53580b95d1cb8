package tool

import (
	"context"
	"log/slog"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/secret"
)

// Context is what a handler knows of its call. It is done when the call's
// limits are over or its run was cancelled; context.Cause then says why.
type Context struct {
	context.Context

	AgentID   crumbs.AgentID
	RunID     crumbs.RunID
	SessionID crumbs.SessionID
	CallID    crumbs.CallID // the same on a redelivery and on a retry: the idempotency key
	Attempt   int           // from 1; more than 1 only for a retry that somebody asked for
	ToolName  string        // the name the model used, tool_web_search

	Hook *crumbs.HookRef // of a hook: its name and point; nil for all else

	Principal *crumbs.Principal // on whose behalf the run happens, nil when nobody said
	Goal      string
	Logger    *slog.Logger // never nil inside a handler; masks Secrets

	// Secrets is what may not leave with results, partials, errors and log lines
	// of this call; never nil inside a handler. See Conceal.
	Secrets *secret.Book

	// Files stores and reads files; never nil inside a handler, since every mesh keeps
	// them. What a call stored stands in its result's files.
	Files Files

	// Timeout and IdleTimeout bound this call; zero means the tool's own.
	Timeout     time.Duration
	IdleTimeout time.Duration

	group *group
}

// Conceal makes a value a secret of this call: from here on its results, partials,
// errors and log lines have `[name]` in its place, also where it stands encoded
// (package secret says how). Whoever reads a credential calls it before using the
// value. A value under secret.LengthMin bytes is not masked; one that cannot be is
// INVALID_CONFIG.
func (c Context) Conceal(name, value string) error { return c.Secrets.Add(name, value) }

// Go runs f in a goroutine that belongs to the call: the call ends only after f
// returned, an error of f fails it, and a panic of f is a TOOL_ERROR like a
// panic of the handler. It may be used only inside a handler.
func (c Context) Go(f func() error) {
	if c.group == nil {
		panic("tool: Context.Go outside a handler")
	}
	c.group.start(f)
}
