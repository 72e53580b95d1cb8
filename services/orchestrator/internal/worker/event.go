package worker

import (
	"context"
	"encoding/json"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// pinned reads what the run's hashes name.
func (w *Worker) pinned(ctx context.Context, s core.State) (core.Pinned, error) {
	p := core.Pinned{Timing: w.cfg.Timing}
	if !s.Exists() || s.Run.ToolSet == "" || s.Status.Ended() && len(s.Outbox.Intents) == 0 {
		return p, nil
	}
	var err error
	if p.Agent, err = w.registry.Definition(ctx, s.Run.Agent, s.Run.Revision); err != nil {
		return p, err
	}
	p.Tools, err = w.registry.ToolSet(ctx, s.Run.ToolSet)
	return p, err
}

// event completes an incoming message with what Decide may need: the admitted
// request, revoked claims.
func (w *Worker) event(ctx context.Context, e *entry, in *incoming, p core.Pinned) (core.Event, core.Pinned, error) {
	event := in.event
	event.Now = crumbs.At(time.Now())
	if in.kind == core.Requested {
		if e.state.Exists() && !e.state.Run.Tombstone {
			return event, p, nil
		}
		return w.admit(ctx, in, event)
	}
	if !e.state.Exists() || e.state.Status.Ended() {
		return event, p, nil
	}
	pending := core.Settles(p, e.state, event)
	if in.yields {
		if err := w.inboxFirst(ctx, pending); err != nil {
			return event, p, err
		}
	}
	var err error
	event.Claims, err = w.revoke(ctx, pending)
	return event, p, err
}

// inboxFirst gives a deadline back while an answer it would overtake waits.
func (w *Worker) inboxFirst(ctx context.Context, pending []core.Pending) error {
	for _, p := range pending {
		subject := crumbs.ToolResultSubject(p.Queue, p.Call, p.Attempt)
		switch {
		case p.Model:
			subject = crumbs.ModelResultSubject(p.Queue, p.Call, p.Attempt)
		case p.Attempt == 0:
			subject = crumbs.DecisionSubject(p.Call.Run(), p.Call)
		}
		m, err := w.conn.Last(ctx, crumbs.StreamInbox, subject)
		if err != nil {
			return err
		}
		if m != nil {
			return mesh.Retry(inboxFirst, fault.New(fault.Unavailable, "an answer waits on %s", subject))
		}
	}
	return nil
}

// revoke forbids every start of the attempts that the event would settle and
// says which had started.
func (w *Worker) revoke(ctx context.Context, pending []core.Pending) (map[string]bool, error) {
	if len(pending) == 0 {
		return nil, nil
	}
	found := make(map[string]bool, len(pending))
	for _, p := range pending {
		if p.Attempt == 0 {
			continue // a question has no claim
		}
		if p.Queue == "" {
			found[p.Key()] = true // what the run was pinned to is gone, and with it whose claim this is
			continue
		}
		started, err := w.claims.Revoke(ctx, claimKey(p))
		if fault.CodeOf(err) == fault.InternalError { // bytes that are no claim: nobody can start on it either
			w.log.ErrorContext(ctx, "claim", "call", p.Key(), "error", err)
			started, err = true, nil
		}
		if err != nil {
			return nil, err
		}
		// A claim lives ClaimTTL: after that its absence proves nothing, and the honest answer is that it started.
		found[p.Key()] = started || time.Since(p.SentAt.Time) > w.conn.Settings.ClaimTTL
	}
	return found, nil
}

func claimKey(p core.Pending) string {
	if p.Model {
		return crumbs.ModelClaim(p.Queue, p.Call, p.Attempt)
	}
	return crumbs.ToolClaim(p.Queue, p.Call, p.Attempt)
}

// admit checks a request against its agent and pins revision and tool set.
func (w *Worker) admit(ctx context.Context, in *incoming, event core.Event) (core.Event, core.Pinned, error) {
	r := in.request
	input := r.Input
	if len(input) == 0 {
		input = json.RawMessage(`{}`)
	}
	session := crumbs.DerivedSessionID(in.run, in.delivery.Stored)
	req := &core.Request{Input: input, Run: core.Run{ID: in.run, Agent: r.AgentID, Session: session, Principal: r.Principal, Goal: r.Goal,
		Attachments: r.Attachments, Metadata: r.Metadata, RequestHash: in.requestHash, Deltas: r.Deltas == nil || *r.Deltas, Trace: w.trace(in)}}
	event.Request = req
	pinned := core.Pinned{Timing: w.cfg.Timing}
	refuse := func(err error) (core.Event, core.Pinned, error) {
		switch code := fault.CodeOf(err); {
		case code == fault.Unavailable, code == fault.ShuttingDown:
			return event, pinned, err
		case (code == fault.InternalError || code == "") && in.delivery.Count < admissionTries:
			return event, pinned, err // it may pass; what does not pass is no reason to wait for ever
		}
		req.Refused = fault.From(err)
		return event, pinned, nil
	}
	if req.Refused = in.refused; req.Refused != nil {
		return event, pinned, nil //nolint:nilerr // what is wrong with the request is part of the event
	}
	if err := w.supported(r); err != nil {
		return refuse(err)
	}
	project, _, err := w.registry.Project(ctx)
	if err != nil {
		return refuse(err)
	}
	revision, ok := project.Agents[r.AgentID]
	if !ok {
		return refuse(fault.New(fault.AgentNotFound, "no agent %q is applied; `crumb agents list` shows what is", r.AgentID))
	}
	if r.AgentRevision != "" {
		revision = r.AgentRevision
	}
	if pinned.Agent, err = w.registry.Definition(ctx, r.AgentID, revision); err != nil {
		return refuse(err)
	}
	if req.Input, err = fitting(pinned.Agent, input); err != nil {
		return refuse(err)
	}
	set, hash, warnings, err := w.registry.Pin(ctx, pinned.Agent, revision, project)
	if w.mayStart(ctx, err, time.Since(in.delivery.Stored)) {
		return event, pinned, mesh.Retry(admissionAsk, err)
	}
	if err != nil {
		return refuse(err)
	}
	if provider := pinned.Agent.Queue(); !w.registry.HasProvider(ctx, provider) {
		unknown := w.registry.UnknownProvider(ctx, pinned.Agent.Model.Provider)
		if len(set.Hooks.At(crumbs.HookOnError)) == 0 || fault.CodeOf(unknown) != fault.UnknownProvider {
			return refuse(unknown)
		}
		req.Unserved = fault.From(unknown) // its hooks may recover
	}
	pinned.Tools = set
	req.Run.Revision, req.Run.ToolSet, req.Warns = revision, hash, warnings
	req.Run.MaxSteps = pinned.Agent.Steps.Max
	if l := r.Limits; l != nil {
		if l.MaxSteps > 0 {
			req.Run.MaxSteps = min(l.MaxSteps, req.Run.MaxSteps)
		}
		if l.DeadlineMs > 0 {
			req.Run.DeadlineAt = crumbs.At(in.delivery.Stored).Add(time.Duration(l.DeadlineMs) * time.Millisecond)
		}
	}
	if req.Run.DeadlineAt.IsZero() { // a run does not outlive its crumbs, nor what it put aside
		req.Run.DeadlineAt = event.Now.Add(w.conn.Settings.RunMax())
	}
	return event, pinned, nil
}

// mayStart reports whether the worker whose tool is missing may yet come: for a
// moment any may, and for as long as somebody says that he starts it.
func (w *Worker) mayStart(ctx context.Context, err error, waited time.Duration) bool {
	if err == nil || waited >= startingWait {
		return false
	}
	f := fault.From(err)
	if f.Code != fault.ToolNotFound && f.Code != fault.HookNotFound && f.Code != fault.ParserNotFound {
		return false
	}
	if waited < admissionWait {
		return true
	}
	group, _ := f.Context["group"].(string)
	starting, err := w.conn.IsStarting(ctx, group)
	if err != nil {
		w.conn.Log.WarnContext(ctx, "who starts a worker is not known", "group", group, "error", err)
	}
	return starting
}

// fitting is the input with the defaults of the agent's schema, as arguments of
// tools have them; INVALID_INPUT when it does not fit.
func fitting(d *agent.Definition, input json.RawMessage) (json.RawMessage, error) {
	s, err := d.Input()
	if s == nil || err != nil {
		return input, err
	}
	full, err := s.Fill(input)
	if err != nil {
		f := fault.From(err)
		return nil, fault.New(fault.InvalidInput, "%s", f.Message)
	}
	return full, s.Check(fault.InvalidInput, full)
}

// Bounds of what a run's record keeps of its request.
const (
	goalMax      = 8 << 10
	principalMax = 1 << 10
)

// supported refuses what the wire has a place for and this version does not do,
// rather than ignoring it.
func (w *Worker) supported(r *crumbs.RunRequest) error {
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"session", r.Session != nil}, {"skill", r.Skill != ""}, {"tools", len(r.Tools) > 0}, {"attachments", len(r.Attachments) > 0},
		{"toolProviderContext", len(r.ToolProviderContext) > 0}, {"principalToken", r.PrincipalToken != ""},
	} {
		if field.set {
			return fault.New(fault.NotAvailable, "run.request field %q is not built in this version; remove it", field.name)
		}
	}
	if r.DataRef != nil {
		return fault.New(fault.NotAvailable, `run.request field "dataref" is not built in this version: a request comes whole, with at most %d bytes; keep a larger value elsewhere and name it in the input`, mesh.PayloadMax)
	}
	if r.Principal != nil && !w.cfg.TrustPrincipal {
		return fault.New(fault.NotAvailable, "a bare principal is believed in `crumb dev` only; verified principals are not built in this version")
	}
	if longest := w.conn.Settings.RunMax().Milliseconds(); r.Limits != nil && (r.Limits.MaxSteps < 0 || r.Limits.DeadlineMs < 0 || r.Limits.DeadlineMs > longest) {
		return fault.New(fault.InvalidMessage, "limits: expected maxSteps of at least 1 and deadlineMs of 1 to %d", longest)
	}
	if len(r.Goal) > goalMax {
		return fault.New(fault.InvalidMessage, "goal has %d bytes: at most %d; put long texts into the input", len(r.Goal), goalMax)
	}
	if p := r.Principal; p != nil && len(p.Issuer)+len(p.Subject)+len(p.Tenant) > principalMax {
		return fault.New(fault.InvalidMessage, "the principal has more than %d bytes", principalMax)
	}
	if len(r.Metadata) > crumbs.MetaMax {
		return fault.New(fault.InvalidMessage, "metadata has %d entries: at most %d", len(r.Metadata), crumbs.MetaMax)
	}
	for k, v := range r.Metadata {
		if len(k)+len(v) > crumbs.AttrMax {
			return fault.New(fault.InvalidMessage, "a metadata entry is %d bytes: at most %d", len(k)+len(v), crumbs.AttrMax)
		}
	}
	return nil
}
