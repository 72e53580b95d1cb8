package endpoint

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/explain"
)

// explain says why a run is where it is. It changes nothing, and what it reads
// besides the record may have moved on.
func (e *Endpoints) explain(ctx context.Context, body json.RawMessage) (any, error) {
	var r crumbs.RunGet
	if err := decode(body, &r, `{"runId":"run_…"}`); err != nil {
		return nil, err
	}
	s, err := e.state(ctx, r.RunID)
	if err != nil {
		return nil, err
	}
	f := explain.Facts{State: s, View: row(s), Now: time.Now(), Timing: e.Timing, Attempts: map[string]explain.Attempt{}, Groups: map[string]explain.Queue{}, Providers: map[string]explain.Queue{}, Decided: map[crumbs.CheckpointID]crumbs.RunDecided{}}
	if err := e.pinned(ctx, &f); err != nil {
		return nil, err
	}
	if f.Last, err = e.lastError(ctx, s); err != nil {
		return nil, err
	}
	present, err := e.Conn.Present(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.queues(ctx, &f, present); err != nil {
		return nil, err
	}
	if s.Status.Ended() {
		return explain.Run(f), nil
	}
	if f.Unsent, err = e.unsent(ctx, s); err != nil {
		return nil, err
	}
	if err := e.attempts(ctx, &f, present); err != nil {
		return nil, err
	}
	if err := e.full(ctx, &f); err != nil {
		return nil, err
	}
	if err := e.answers(ctx, &f); err != nil {
		return nil, err
	}
	return explain.Run(f), nil
}

// pinned reads what the run's hashes name; what is gone is left out.
func (e *Endpoints) pinned(ctx context.Context, f *explain.Facts) (err error) {
	run := f.State.Run
	if run.Revision != "" {
		if f.Definition, err = e.Registry.Definition(ctx, run.Agent, run.Revision); err != nil && fault.CodeOf(err) == fault.Unavailable {
			return err
		}
	}
	if run.ToolSet != "" {
		if f.Tools, err = e.Registry.ToolSet(ctx, run.ToolSet); err != nil && fault.CodeOf(err) == fault.Unavailable {
			return err
		}
	}
	return nil
}

// queues reads those that the run's tools and model use.
func (e *Endpoints) queues(ctx context.Context, f *explain.Facts, present []mesh.Presence) error {
	workers := map[string]int{}
	for _, p := range present {
		workers[p.Service+" "+p.Queue]++
	}
	read := func(all map[string]explain.Queue, stream, consumer, service, name string) error {
		if _, known := all[name]; known || name == "" {
			return nil
		}
		load, err := e.Conn.Load(ctx, stream, consumer)
		if err != nil && fault.CodeOf(err) != fault.TopologyMissing {
			return err
		}
		all[name] = explain.Queue{Missing: err != nil, Workers: workers[service+" "+name], Pending: int64(load.Pending)}
		return nil
	}
	var entries []agent.Entry
	if f.Tools != nil {
		entries = f.Tools.Entries
	}
	for _, t := range entries {
		if err := read(f.Groups, crumbs.StreamToolCalls, mesh.GroupConsumer(t.Group), mesh.ServiceTools, t.Group); err != nil {
			return err
		}
	}
	if f.Definition == nil {
		return nil
	}
	provider := f.Definition.Queue()
	return read(f.Providers, crumbs.StreamModelCalls, mesh.ProviderConsumer(provider), mesh.ServiceModels, provider)
}

// attempts reads what is known of each attempt in flight.
func (e *Endpoints) attempts(ctx context.Context, f *explain.Facts, present []mesh.Presence) error {
	s := f.State
	if m := s.Model; m != nil && f.Definition != nil {
		provider := f.Definition.Queue()
		a, err := e.attempt(ctx, flight{attempt: m.Attempt, queue: provider, model: true}.flying(m.ID), present)
		if err != nil {
			return err
		}
		f.Attempts[m.ID.Attempt(m.Attempt)] = a
	}
	for _, c := range s.Calls {
		if c.Phase != core.Dispatched || f.Tools == nil {
			continue
		}
		t, ok := f.Tools.Lookup(c.Leaf)
		if !ok {
			continue
		}
		a, err := e.attempt(ctx, flight{attempt: c.Attempt, queue: t.Group}.flying(c.ID), present)
		if err != nil {
			return err
		}
		f.Attempts[c.ID.Attempt(c.Attempt)] = a
	}
	return e.errands(ctx, f, present)
}

// errands reads what is known of each hook and parser in flight.
func (e *Endpoints) errands(ctx context.Context, f *explain.Facts, present []mesh.Presence) error {
	for _, m := range core.Missions(core.Pinned{Tools: f.Tools}, f.State) {
		if !m.RetryAt.IsZero() {
			continue
		}
		group := m.Program.Group
		a, err := e.attempt(ctx, flying{crumbs.StreamToolCalls, mesh.GroupConsumer(group), crumbs.ToolCallSubject(group, f.State.Run.ID),
			crumbs.ToolResultSubject(group, m.ID, m.Attempt), crumbs.ToolClaim(group, m.ID, m.Attempt), m.ID, m.Attempt}, present)
		if err != nil {
			return err
		}
		f.Attempts[m.ID.Attempt(m.Attempt)] = a
	}
	return nil
}

// full looks at the streams of calls when an attempt is nowhere: who filled one keeps
// the calls of others from being sent.
func (e *Endpoints) full(ctx context.Context, f *explain.Facts) error {
	nowhere := func(a explain.Attempt) bool { return !a.Message && !a.Started && !a.Result }
	if !slices.ContainsFunc(slices.Collect(maps.Values(f.Attempts)), nowhere) {
		return nil
	}
	f.Full = map[string]explain.Full{}
	for _, name := range []string{crumbs.StreamModelCalls, crumbs.StreamToolCalls} {
		s, err := e.Conn.StreamState(ctx, name)
		if fault.CodeOf(err) == fault.TopologyMissing {
			continue
		}
		if err != nil {
			return err
		}
		if s.Full() {
			f.Full[name] = explain.Full{Bytes: int64(s.Bytes), Limit: s.Limit, Messages: s.Messages, Last: s.Last}
		}
	}
	return nil
}

// flying is an attempt that was sent and has no outcome.
type flying struct {
	stream, consumer, command, result, claim string
	call                                     crumbs.CallID
	attempt                                  int
}

// commandsMax bounds how many commands of a run are looked at to find one.
const commandsMax = 2 * core.CallsMax

func (e *Endpoints) attempt(ctx context.Context, a flying, present []mesh.Presence) (explain.Attempt, error) {
	out := explain.Attempt{}
	claim, err := e.Conn.Claims().Get(ctx, a.claim)
	if err != nil {
		return out, err
	}
	out.Started, out.Revoked, out.Starts = claim.State == mesh.ClaimStarted, claim.State == mesh.ClaimRevoked, claim.Starts
	if out.Started {
		out.Worker, out.At = claim.Worker, claim.At
		for _, p := range present {
			out.Alive = out.Alive || p.Worker == claim.Worker
		}
	}
	result, err := e.Conn.Last(ctx, crumbs.StreamInbox, a.result)
	if err != nil {
		return out, err
	}
	out.Result = result != nil
	from := uint64(1)
	for range commandsMax {
		m, err := e.Conn.Next(ctx, a.stream, a.command, from)
		if err != nil || m == nil {
			return out, err
		}
		if m.Header.Get("ce-id") != a.call.Attempt(a.attempt) {
			from = m.Sequence + 1
			continue
		}
		load, err := e.Conn.Load(ctx, a.stream, a.consumer)
		if err != nil && fault.CodeOf(err) != fault.TopologyMissing {
			return out, err
		}
		out.Message, out.HandedTo = true, m.Sequence <= load.Delivered
		return out, nil
	}
	return out, nil
}

// unsent is how many messages of the last decision no crumb proves sent.
func (e *Endpoints) unsent(ctx context.Context, s core.State) (int, error) {
	if len(s.Outbox.Crumbs) == 0 {
		return 0, nil
	}
	last, err := e.Conn.Last(ctx, crumbs.StreamCrumbs, crumbs.CrumbFilter(s.Run.Agent, s.Run.ID))
	if err != nil {
		return 0, err
	}
	var base crumbs.Base
	if last != nil && json.Unmarshal(last.Data, &base) == nil && base.Seq >= s.Seq {
		return 0, nil
	}
	return len(s.Outbox.Crumbs) + len(s.Outbox.Intents), nil
}

// lastError finds the latest error among the run's last crumbs of each type that
// tells of one.
func (e *Endpoints) lastError(ctx context.Context, s core.State) (*crumbs.RunLastError, error) {
	var found *crumbs.RunLastError
	for _, typ := range []string{crumbs.TypeStepEnd, crumbs.TypeToolErrored, crumbs.TypeToolBlocked, crumbs.TypeAgentError} {
		m, err := e.Conn.Last(ctx, crumbs.StreamCrumbs, crumbs.CrumbSubject(s.Run.Agent, s.Run.ID, typ))
		if err != nil {
			return nil, err
		}
		if m == nil {
			continue
		}
		var crumb struct {
			crumbs.Base
			ToolName string       `json:"toolName"`
			Error    *fault.Error `json:"error"`
		}
		if json.Unmarshal(m.Data, &crumb) != nil || crumb.Error == nil || found != nil && crumb.Seq < found.Seq {
			continue
		}
		found = &crumbs.RunLastError{Type: typ, Seq: crumb.Seq, At: crumbs.At(time.UnixMilli(crumb.Timestamp)), ToolName: crumb.ToolName, Error: clipped(crumb.Error)}
	}
	return found, nil
}

// clipped is an error as a reply can hold it.
func clipped(f *fault.Error) *fault.Error {
	return fault.New(f.Code, "%s", clip(f.Message, rowErrorMax))
}
