// Package endpoint answers the orchestrator's request–reply subjects:
// crumbmesh.runs, crumbmesh.agents, crumbmesh.tools and crumbmesh.dead.
package endpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/registry"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/worker"
)

// Bounds of runs.list.
const (
	listDefault = 50
	listMax     = 200
)

// source names this service in the envelopes of what it publishes for callers.
const source = "orchestrator"

// Endpoints holds what the answers are made from.
type Endpoints struct {
	Conn     *mesh.Conn
	Registry *registry.Registry
	Verify   func(crumbs.Decision) error // as the run machine verifies decisions; nil: all are believed
	Timing   core.Timing                 // of the runs, for explanations
	Full     func() error                // QUEUE_FULL while the mesh takes no new runs; nil: it always does
}

// Serve registers the micro services and returns a func that stops them, all at once:
// each may wait for the server's word and for what it has in hand.
func (e *Endpoints) Serve() (stop func(), err error) {
	var stops []func() error
	stop = func() {
		var all sync.WaitGroup
		for _, s := range stops {
			all.Go(func() {
				if err := s(); err != nil {
					e.Conn.Log.Debug("stop endpoints", "error", err)
				}
			})
		}
		all.Wait()
	}
	for _, svc := range []struct {
		noun, description string
		endpoints         []mesh.Endpoint
	}{
		{"runs", "start, read, explain, list and cancel runs", []mesh.Endpoint{{Name: "start", Handle: e.start}, {Name: "get", Handle: e.get}, {Name: "list", Handle: e.list}, {Name: "explain", Handle: e.explain}, {Name: "cancel", Handle: e.cancel}}},
		{"agents", "list, read and apply agent definitions", []mesh.Endpoint{{Name: "list", Handle: e.agents}, {Name: "get", Handle: e.agent}, {Name: "apply", Handle: e.apply}}},
		{"dead", "list, read, edit, redrive, answer and close what was given up", []mesh.Endpoint{{Name: "list", Handle: e.deadList}, {Name: "get", Handle: e.deadGet},
			{Name: "edit", Handle: e.deadEdit}, {Name: "redrive", Handle: e.deadRedrive}, {Name: "answer", Handle: e.deadAnswer}, {Name: "close", Handle: e.deadClose}}},
		{"mesh", "show what the mesh holds at the moment", []mesh.Endpoint{{Name: "get", Handle: e.mesh}}},
		{"tools", "list the tools that workers announced", []mesh.Endpoint{{Name: "list", Handle: e.tools}}},
	} {
		s, err := e.Conn.Serve(svc.noun, svc.description, svc.endpoints...)
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, s.Stop)
	}
	return stop, nil
}

func decode(body json.RawMessage, out any, want string) error {
	if err := json.Unmarshal(body, out); err != nil {
		return fault.Wrap(fault.InvalidMessage, err, "expected a JSON body like %s", want)
	}
	return nil
}

func (e *Endpoints) start(ctx context.Context, body json.RawMessage) (any, error) {
	var r crumbs.RunRequest
	if err := decode(body, &r, `{"agentId":"writer","input":{…}}`); err != nil {
		return nil, err
	}
	if err := crumbs.CheckAgentID(string(r.AgentID)); err != nil {
		return nil, err
	}
	if r.RunID == "" {
		r.RunID = crumbs.NewRunID()
	}
	if err := crumbs.CheckRunID("run", string(r.RunID)); err != nil {
		return nil, err
	}
	reply := crumbs.RunStartReply{RunID: r.RunID, AgentID: r.AgentID, Created: true}
	s, err := e.state(ctx, r.RunID)
	switch {
	case err == nil && !s.Run.Tombstone && s.Run.RequestHash != worker.RequestHash(r):
		return nil, conflict(r.RunID)
	case err == nil && !s.Run.Tombstone:
		reply.Created = false
		return reply, nil
	case err != nil && fault.CodeOf(err) != fault.RunNotFound:
		return nil, err
	}
	if e.Full != nil {
		if err := e.Full(); err != nil {
			return nil, err
		}
	}
	r.Type = crumbs.TypeRunRequest
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fault.From(err)
	}
	ev := crumbs.Event{ID: string(r.RunID), Source: crumbs.Source(source), Type: crumbs.CEType(r.Type), Subject: "run/" + string(r.RunID),
		Time: time.Now(), RunID: r.RunID, AgentID: r.AgentID, Data: data}
	msg, err := ev.Message(crumbs.RequestSubject(r.AgentID))
	if err != nil {
		return nil, err
	}
	mesh.InjectTrace(ctx, msg)
	ack, err := e.Conn.Publish(ctx, msg, jetstream.WithMsgID(string(r.RunID)))
	if err != nil {
		return nil, err
	}
	if ack.Duplicate {
		reply.Created = false
		return reply, e.sameRequest(ctx, r, ack.Sequence)
	}
	return reply, nil
}

// sameRequest compares a request with the one that waits under its run id. One
// that is gone was taken by the run, whose record then tells.
func (e *Endpoints) sameRequest(ctx context.Context, r crumbs.RunRequest, sequence uint64) error {
	m, err := e.Conn.Message(ctx, crumbs.StreamRequests, sequence)
	if err != nil {
		return err
	}
	hash := ""
	if m != nil {
		var waiting crumbs.RunRequest
		if json.Unmarshal(m.Data, &waiting) == nil {
			hash = worker.RequestHash(waiting)
		}
	} else if s, err := e.state(ctx, r.RunID); err == nil {
		hash = s.Run.RequestHash
	}
	if hash != "" && hash != worker.RequestHash(r) {
		return conflict(r.RunID)
	}
	return nil
}

func conflict(run crumbs.RunID) error {
	return fault.New(fault.RunConflict, "run id %s was used before with another request; choose another id", run)
}

// state reads a run's record. It fails with RUN_NOT_FOUND.
func (e *Endpoints) state(ctx context.Context, run crumbs.RunID) (core.State, error) {
	if err := crumbs.CheckRunID("run", string(run)); err != nil {
		return core.State{}, err
	}
	r, err := e.Conn.Bucket(crumbs.BucketRuns).Get(ctx, string(run))
	if err != nil {
		return core.State{}, err
	}
	if !r.Exists() {
		return core.State{}, fault.New(fault.RunNotFound, "no run %s is on record", run)
	}
	return core.Decode(r.Value)
}

func (e *Endpoints) get(ctx context.Context, body json.RawMessage) (any, error) {
	var r crumbs.RunGet
	if err := decode(body, &r, `{"runId":"run_…"}`); err != nil {
		return nil, err
	}
	s, err := e.state(ctx, r.RunID)
	if err != nil {
		return nil, err
	}
	v := view(s)
	if s.Result != nil && s.Result.Output.Ref != "" {
		if v.Output, err = e.Conn.Blobs(crumbs.AreaCore).Get(ctx, s.Result.Output.Ref); err != nil {
			return nil, err
		}
		if len(v.Output) > mesh.InlineMax {
			v.Output = nil // too large for a reply: agent:run:end has it
		}
	}
	return v, nil
}

func view(s core.State) crumbs.RunView {
	v := crumbs.RunView{RunID: s.Run.ID, AgentID: s.Run.Agent, SessionID: s.Run.Session, Revision: s.Run.Revision, Status: string(s.Status),
		Step: s.Step, Seq: s.Seq, StartedAt: s.Run.StartedAt, Usage: s.Usage, Cost: s.Cost}
	if !s.Run.EndedAt.IsZero() {
		v.EndedAt = &s.Run.EndedAt
	}
	for _, c := range s.Calls {
		if c.Phase == core.Asking {
			v.Checkpoints = append(v.Checkpoints, c.ID)
		}
	}
	if r := s.Result; r != nil {
		v.Output, v.FinishReason, v.Error = r.Output.Inline, r.FinishReason, r.Error
	}
	return v
}

func (e *Endpoints) list(ctx context.Context, body json.RawMessage) (any, error) {
	var r crumbs.RunList
	if err := decode(body, &r, `{"status":"suspended","limit":50}`); err != nil {
		return nil, err
	}
	limit := cmp.Or(r.Limit, listDefault)
	if limit < 1 || limit > listMax {
		return nil, fault.New(fault.InvalidMessage, "limit %d: expected 1 to %d", r.Limit, listMax)
	}
	if err := checkStatus(core.Status(r.Status)); err != nil {
		return nil, err
	}
	newest := runPage{limit: limit}
	var failed error
	err := e.Conn.Bucket(crumbs.BucketRuns).Heads(ctx, ">", func(rec mesh.Record) bool {
		var v crumbs.RunView
		if v, failed = e.head(ctx, rec); failed == nil && chosen(r, v) {
			newest.add(v)
		}
		return failed == nil
	})
	if err = cmp.Or(failed, err); err != nil {
		return nil, err
	}
	return e.rows(ctx, r, newest.reply())
}

// chosen reports whether a run belongs into a list.
func chosen(r crumbs.RunList, v crumbs.RunView) bool {
	return v.RunID != "" && (r.Status == "" || r.Status == v.Status) && (r.AgentID == "" || r.AgentID == v.AgentID)
}

// head is what the headers of a record say of its run; those of older releases
// leave the status to the value.
func (e *Endpoints) head(ctx context.Context, rec mesh.Record) (crumbs.RunView, error) {
	v := crumbs.RunView{RunID: crumbs.RunID(rec.Key), AgentID: crumbs.AgentID(rec.Head(core.HeadAgent)), Status: rec.Head(core.HeadStatus)}
	started, err := strconv.ParseInt(rec.Head(core.HeadStarted), 10, 64)
	if v.Status == "" || v.AgentID == "" || err != nil {
		return e.whole(ctx, v.RunID)
	}
	v.StartedAt = crumbs.At(time.UnixMilli(started))
	return v, nil
}

// whole is the row of a run; one that is gone or cannot be read has no id.
func (e *Endpoints) whole(ctx context.Context, run crumbs.RunID) (crumbs.RunView, error) {
	rec, err := e.Conn.Bucket(crumbs.BucketRuns).Get(ctx, string(run))
	if err != nil || !rec.Exists() {
		return crumbs.RunView{}, err
	}
	if s, err := core.Decode(rec.Value); err == nil {
		return row(s), nil
	}
	return crumbs.RunView{}, nil // the run machine says what is wrong with it
}

// rows reads the runs of a page whole. One that went on meanwhile and does not
// belong into the list any more is left out.
func (e *Endpoints) rows(ctx context.Context, r crumbs.RunList, page crumbs.RunListReply) (any, error) {
	all := page.Runs
	page.Runs = make([]crumbs.RunView, 0, len(all))
	for _, head := range all {
		v, err := e.whole(ctx, head.RunID)
		if err != nil {
			return nil, err
		}
		if chosen(r, v) {
			page.Runs = append(page.Runs, v)
		}
	}
	return page, nil
}

// checkStatus refuses a status that no run has: an empty list would say that there
// are no such runs. None chooses all.
func checkStatus(s core.Status) error {
	all := []core.Status{core.Running, core.Suspended, core.Stopping, core.Completed, core.Failed, core.Cancelled}
	if s == "" || slices.Contains(all, s) {
		return nil
	}
	return fault.New(fault.InvalidMessage, "status %.32q: expected one of %s, or none for all", s, strings.Trim(fmt.Sprint(all), "[]"))
}

// row is a run in a list: without what may be large.
func row(s core.State) crumbs.RunView {
	v := view(s)
	v.Output = nil
	if v.Error != nil {
		short := fault.New(v.Error.Code, "%s", strings.ToValidUTF8(v.Error.Message[:min(len(v.Error.Message), rowErrorMax)], ""))
		v.Error = short
	}
	v.Checkpoints = v.Checkpoints[:min(len(v.Checkpoints), rowCheckpointsMax)]
	return v
}

// Bounds of a row, so that listMax of them fit a reply.
const (
	rowErrorMax       = 512
	rowCheckpointsMax = 16
)

// runPage keeps the newest runs, whatever order they come in; it holds no more than
// twice the limit.
type runPage struct {
	limit int
	total int
	rows  []crumbs.RunView
}

func (p *runPage) add(v crumbs.RunView) {
	p.total++
	if p.rows = append(p.rows, v); len(p.rows) >= 2*p.limit {
		p.cut()
	}
}

func (p *runPage) cut() {
	slices.SortFunc(p.rows, func(a, b crumbs.RunView) int {
		return cmp.Or(b.StartedAt.Compare(a.StartedAt.Time), cmp.Compare(b.RunID, a.RunID))
	})
	p.rows = p.rows[:min(len(p.rows), p.limit)]
}

func (p *runPage) reply() crumbs.RunListReply {
	p.cut()
	return crumbs.RunListReply{Runs: p.rows, Truncated: p.total > p.limit}
}

func (e *Endpoints) cancel(ctx context.Context, body json.RawMessage) (any, error) {
	var r crumbs.RunCancel
	if err := decode(body, &r, `{"runId":"run_…","reason":"…"}`); err != nil {
		return nil, err
	}
	if len(r.Reason) > core.ReasonMax {
		return nil, fault.New(fault.InvalidMessage, "reason: %d bytes > limit %d", len(r.Reason), core.ReasonMax)
	}
	reply := crumbs.RunCancelReply{RunID: r.RunID}
	s, err := e.state(ctx, r.RunID)
	if err != nil && fault.CodeOf(err) != fault.RunNotFound {
		return nil, err
	}
	if reply.Status = string(s.Status); s.Status.Ended() {
		return reply, nil
	}
	control := crumbs.RunControl{Type: crumbs.TypeRunControl, RunID: r.RunID, ControlID: uuid.NewString(), Action: crumbs.ActionCancel, Reason: r.Reason, Principal: r.Principal}
	data, err := json.Marshal(control)
	if err != nil {
		return nil, fault.From(err)
	}
	ev := crumbs.Event{ID: control.ControlID, Source: crumbs.Source(source), Type: crumbs.CEType(control.Type), Subject: "run/" + string(r.RunID),
		Time: time.Now(), RunID: r.RunID, Data: data}
	msg, err := ev.Message(crumbs.ControlSubject(r.RunID))
	if err != nil {
		return nil, err
	}
	if _, err := e.Conn.Publish(ctx, msg, jetstream.WithMsgID(control.ControlID)); err != nil {
		return nil, err
	}
	return reply, nil
}
