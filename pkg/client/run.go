package client

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Request asks an agent for a run.
type Request struct {
	Agent crumbs.AgentID // required
	Input any            // written as JSON, a json.RawMessage as it is; {} when nil

	// RunID is the idempotency key: a caller that may repeat itself chooses it
	// (`[A-Za-z0-9_-]{1,64}`). A fresh one when empty.
	RunID crumbs.RunID

	Session             *crumbs.SessionRef
	Skill               string
	Goal                string
	Principal           *crumbs.Principal // believed only where the mesh trusts bare claims
	PrincipalToken      string            // a JWT
	Attachments         []crumbs.File
	Tools               []json.RawMessage // inline tool files
	ToolProviderContext any
	AgentRevision       string // the applied one when empty
	Limits              *crumbs.Limits
	WithoutDeltas       bool // nobody will want tokens live
	Metadata            map[string]string
}

func (r Request) wire() (crumbs.RunRequest, error) {
	body := crumbs.RunRequest{
		Type: crumbs.TypeRunRequest, RunID: r.RunID, AgentID: r.Agent, Session: r.Session, Skill: r.Skill, Goal: r.Goal,
		Principal: r.Principal, PrincipalToken: r.PrincipalToken, Attachments: r.Attachments, Tools: r.Tools,
		AgentRevision: r.AgentRevision, Limits: r.Limits, Metadata: r.Metadata,
	}
	if err := crumbs.CheckAgentID(string(r.Agent)); err != nil {
		return body, err
	}
	if body.RunID == "" {
		body.RunID = crumbs.NewRunID()
	}
	if err := crumbs.CheckRunID("run", string(body.RunID)); err != nil {
		return body, err
	}
	if err := checkMetadata(r.Metadata); err != nil {
		return body, err
	}
	if r.WithoutDeltas {
		body.Deltas = new(bool)
	}
	var err error
	if body.Input, err = encode("the input", r.Input); err != nil {
		return body, err
	}
	body.ToolProviderContext, err = encode("the tool provider context", r.ToolProviderContext)
	return body, err
}

func checkMetadata(metadata map[string]string) error {
	if len(metadata) > crumbs.MetaMax {
		return fault.New(fault.InvalidInput, "metadata has %d entries: expected at most %d", len(metadata), crumbs.MetaMax)
	}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if n := len(key) + len(metadata[key]); n > crumbs.AttrMax {
			return fault.New(fault.InvalidInput, "metadata %.32q has %d bytes: expected at most %d of key and value", key, n, crumbs.AttrMax)
		}
	}
	return nil
}

// Run names a run that was asked for.
type Run struct {
	ID      crumbs.RunID
	Agent   crumbs.AgentID
	Created bool // false: the same request was made before
}

// Start asks for a run and returns when the request is stored: from then on the
// run takes place, whatever becomes of the caller and of ctx. To end it, Cancel it.
//
// It fails with RUN_CONFLICT when the id was used with another request,
// INVALID_NAME, INVALID_INPUT or PAYLOAD_TOO_LARGE for a request that is none,
// QUEUE_FULL when the mesh takes no new work now, and UNAVAILABLE. With any error
// that came after the id was known the Run names it: to repeat the request after
// UNAVAILABLE, set its RunID to that.
func (c *Client) Start(ctx context.Context, r Request) (Run, error) {
	body, err := r.wire()
	if err != nil {
		return Run{ID: r.RunID, Agent: r.Agent}, err
	}
	var reply crumbs.RunStartReply
	if err := c.request(ctx, crumbs.EndpointRunsStart, body, &reply); err != nil {
		return Run{ID: body.RunID, Agent: r.Agent}, err
	}
	return Run{ID: reply.RunID, Agent: r.Agent, Created: reply.Created}, nil
}

// Run asks for a run, follows it, and returns how it ended or, when it waits for
// people, what they are asked: see Outcome. OnHumanRequired tells of each question
// as it is asked.
//
// The run is the caller's: when ctx ends before Run has returned, the run is
// cancelled, and Run returns how it ended then, RUN_CANCELLED in the Outcome as a
// rule. It is bounded by CancelWait; after that, and when the run could not be
// cancelled, Run fails with UNAVAILABLE around the error of ctx, and the run may go
// on. Detached leaves the run alone instead and returns the error of ctx. A ctx
// that has ended before the call starts nothing; one that ends while the request
// is under way cancels the run, should there be one, and the error of ctx comes
// back. Once Run has returned, ctx means nothing to the run.
//
// It fails as Start and Wait do. The Outcome of an error still names the run,
// which, but for the cancelling told of above, goes on.
func (c *Client) Run(ctx context.Context, r Request, opts ...FollowOption) (Outcome, error) {
	if err := ctx.Err(); err != nil {
		return Outcome{Run: r.RunID}, err
	}
	detached := followingOf(opts).detached
	run, err := c.Start(ctx, r)
	if err != nil {
		if ctx.Err() != nil && !detached {
			_ = c.cancel(ctx, run.ID) // nobody knows whether there is a run; the error says that already
		}
		return Outcome{Run: run.ID}, err
	}
	opts = append(slices.Clone(opts), Started(run.Agent))
	if detached {
		return c.Wait(ctx, run.ID, opts...)
	}
	return c.waitOrCancel(ctx, run, opts)
}

// RunView returns a run as it stands now. It fails with RUN_NOT_FOUND, also for
// a run whose request is stored but was not taken up yet.
func (c *Client) RunView(ctx context.Context, run crumbs.RunID) (crumbs.RunView, error) {
	var view crumbs.RunView
	if err := crumbs.CheckRunID("run", string(run)); err != nil {
		return view, err
	}
	err := c.request(ctx, crumbs.EndpointRunsGet, crumbs.RunGet{RunID: run}, &view)
	return view, err
}

// Runs lists runs, newest first.
func (c *Client) Runs(ctx context.Context, list crumbs.RunList) (crumbs.RunListReply, error) {
	var reply crumbs.RunListReply
	err := c.request(ctx, crumbs.EndpointRunsList, list, &reply)
	return reply, err
}

// Cancel asks that a run ends, and returns when that is stored: follow the run to
// see it end. A run that ended before stays as it is; one that is not known yet
// ends as soon as it is asked for.
func (c *Client) Cancel(ctx context.Context, run crumbs.RunID, reason string) (crumbs.RunCancelReply, error) {
	var reply crumbs.RunCancelReply
	if err := crumbs.CheckRunID("run", string(run)); err != nil {
		return reply, err
	}
	err := c.request(ctx, crumbs.EndpointRunsCancel, crumbs.RunCancel{RunID: run, Reason: reason}, &reply)
	return reply, err
}

// Explain returns what a run waits for, who has that in hand, and what to do. It
// fails with RUN_NOT_FOUND.
func (c *Client) Explain(ctx context.Context, run crumbs.RunID) (crumbs.RunExplained, error) {
	var x crumbs.RunExplained
	if err := crumbs.CheckRunID("run", string(run)); err != nil {
		return x, err
	}
	err := c.request(ctx, crumbs.EndpointRunsExplain, crumbs.RunGet{RunID: run}, &x)
	return x, err
}
