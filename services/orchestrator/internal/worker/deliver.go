package worker

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs/jscrumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// service names this service in ce-source.
const service = "orchestrator"

// deliver sends the Outbox of e: commands, then crumbs one after the other, every
// ack awaited. On success the cache knows.
func (w *Worker) deliver(ctx context.Context, e *entry, in *incoming) error {
	s := e.state
	if err := w.sendCommands(ctx, s, in); err != nil {
		return err
	}
	w.cfg.At(PointCommands, s.Run.ID)
	if len(s.Outbox.Crumbs) > 0 {
		messages := make([]*nats.Msg, 0, len(s.Outbox.Crumbs))
		for _, c := range s.Outbox.Crumbs {
			m, err := w.crumb(ctx, s, c)
			if err != nil {
				return err
			}
			messages = append(messages, m)
		}
		fence, err := w.appendCrumbs(ctx, s, messages)
		if err != nil {
			return err
		}
		e.state.Fence = fence
	}
	e.delivered = true
	w.cache.put(s.Run.ID, e)
	return nil
}

func (w *Worker) appendCrumbs(ctx context.Context, s core.State, messages []*nats.Msg) (core.Fence, error) {
	fence := jscrumbs.Fence{Seq: s.Fence.Seq, Stream: s.Fence.Stream}
	filter := crumbs.CrumbFilter(s.Run.Agent, s.Run.ID)
	first := s.Outbox.Crumbs[0].Seq
	for i, m := range messages { // one by one, so that a fault point lies between any two
		var err error
		fence, err = jscrumbs.Append(ctx, w.conn, filter, fence, first+uint64(i), []*nats.Msg{m})
		if err != nil {
			return core.Fence{}, err
		}
		w.cfg.At(PointCrumb, s.Run.ID)
	}
	return core.Fence{Seq: fence.Seq, Stream: fence.Stream}, nil
}

func (w *Worker) lastCrumb(ctx context.Context, s core.State) (core.Fence, error) {
	f, err := jscrumbs.Last(ctx, w.conn, crumbs.CrumbFilter(s.Run.Agent, s.Run.ID))
	return core.Fence{Seq: f.Seq, Stream: f.Stream}, err
}

// crumb makes the message of a numbered crumb; a large body is a claim check.
func (w *Worker) crumb(ctx context.Context, s core.State, c core.Crumb) (*nats.Msg, error) {
	body := c.Body.Inline
	if c.Body.Ref != "" {
		var err error
		if body, err = w.bodies.Get(ctx, c.Body.Ref); lost(err) {
			return w.hollow(ctx, s, c)
		} else if err != nil {
			return nil, err
		}
	}
	body, ref, err := w.bodies.CheckIn(ctx, s.Run.ID, body, mesh.BaseFields()...)
	if err != nil {
		return nil, err
	}
	return w.numbered(s, c, body, ref)
}

// hollow is a crumb whose body is gone before it was sent: its base fields and the
// reference. The crumbs after it, and the end of the run, do not wait for it.
func (w *Worker) hollow(ctx context.Context, s core.State, c core.Crumb) (*nats.Msg, error) {
	w.log.ErrorContext(ctx, "the body of a crumb is gone", "run", s.Run.ID, "crumb", c.Seq, "type", c.Type, "object", c.Body.Ref)
	body, err := json.Marshal(crumbs.Base{Type: c.Type, RunID: s.Run.ID, AgentID: s.Run.Agent, SessionID: s.Run.Session, Seq: c.Seq,
		Timestamp: c.At.UnixMilli(), Step: s.Step, Suspended: s.Status == core.Suspended && c.Seq == s.Seq,
		DataRef: &crumbs.DataRef{Object: c.Body.Ref, Bytes: int64(c.Body.Bytes)}})
	if err != nil {
		return nil, fault.From(err)
	}
	return w.numbered(s, c, body, c.Body.Ref)
}

func (w *Worker) numbered(s core.State, c core.Crumb, body json.RawMessage, ref string) (*nats.Msg, error) {
	e := w.envelope(s, c.Type, crumbs.CrumbID(s.Run.ID, c.Seq), c.At.Time)
	e.Sequence, e.DataRef, e.Data = c.Seq, ref, body
	return e.Message(crumbs.CrumbSubject(s.Run.Agent, s.Run.ID, c.Type))
}

func (w *Worker) envelope(s core.State, typ, id string, at time.Time) crumbs.Event {
	return crumbs.Event{ID: id, Source: crumbs.Source(service), Type: crumbs.CEType(typ), Subject: "run/" + string(s.Run.ID), Time: at,
		RunID: s.Run.ID, AgentID: s.Run.Agent, SessionID: s.Run.Session, TraceParent: s.Run.Trace.TraceParent()}
}

// sendCommands publishes the intents that are not void, at the same time: nothing
// relies on their order.
func (w *Worker) sendCommands(ctx context.Context, s core.State, in *incoming) error {
	if len(s.Outbox.Intents) == 0 {
		return nil
	}
	pinned, err := w.pinned(ctx, s)
	if err != nil && !gone(err) {
		return err
	}
	load := func(name string) ([]byte, error) { return w.blobs.Get(ctx, name) }
	var commands []core.Command
	for _, intent := range s.Outbox.Intents {
		if in != nil && in.answers(intent) || err != nil && (intent.Kind == core.SendModel || intent.Kind == core.SendTool) {
			continue // answered; or what it is made of is gone, and its deadline settles it
		}
		cmd, ok, err := core.Render(pinned, s, intent, load)
		if lost(err) {
			w.log.ErrorContext(ctx, "a command cannot be made: its deadline settles it", "run", s.Run.ID, "call", intent.Call, "error", err)
			continue
		}
		if err != nil {
			return err
		}
		if !ok || !cmd.StartBefore.IsZero() && time.Now().After(cmd.StartBefore.Time) {
			continue
		}
		commands = append(commands, cmd)
	}
	return w.sendAll(ctx, s, commands, in.answered())
}

// sendAll needs no goroutine for the last command, most often the only one.
func (w *Worker) sendAll(ctx context.Context, s core.State, commands []core.Command, after crumbs.CheckpointID) error {
	if len(commands) == 0 {
		return nil
	}
	last := len(commands) - 1
	var group errgroup.Group
	for _, cmd := range commands[:last] {
		group.Go(func() error { return w.send(ctx, s, cmd, after) })
	}
	return errors.Join(w.send(ctx, s, commands[last], after), group.Wait())
}

func (w *Worker) send(ctx context.Context, s core.State, cmd core.Command, after crumbs.CheckpointID) error {
	body, ref, err := w.aside(cmd.Subject).CheckIn(ctx, s.Run.ID, cmd.Body, mesh.BaseFields()...)
	if err != nil {
		return err
	}
	e := w.envelope(s, cmd.Type, cmd.MessageID, time.Now())
	e.DataRef, e.Data = ref, body
	msg, err := e.Message(cmd.Subject)
	if err != nil {
		return err
	}
	if parent := s.Run.Trace.TraceParent(); parent != "" {
		msg.Header["traceparent"] = []string{parent}
		if after != "" {
			msg.Header[crumbs.HeaderAfter] = []string{string(after)}
		}
	}
	if cmd.Core {
		return w.conn.NATS.PublishMsg(msg)
	}
	opts := []jetstream.PublishOpt{jetstream.WithMsgID(cmd.MessageID)}
	switch {
	case !cmd.FireAt.IsZero():
		msg.Header["Nats-Schedule"] = []string{"@at " + cmd.FireAt.UTC().Format(time.RFC3339Nano)}
		msg.Header["Nats-Schedule-Target"] = []string{cmd.Target}
		msg.Header["Nats-Schedule-TTL"] = []string{w.conn.Settings.TimerTTL.String()}
	case !cmd.StartBefore.IsZero():
		opts = append(opts, mesh.TTL(time.Until(cmd.StartBefore.Time)))
	}
	_, err = w.conn.Publish(ctx, msg, opts...)
	return err
}

// aside is where the body of a command goes that is too large for a message: where
// the workers of its group, and no others, may read it.
func (w *Worker) aside(subject string) *mesh.Blobs {
	if group, ok := strings.CutPrefix(subject, "tool.call."); ok {
		group, _, _ = strings.Cut(group, ".")
		return w.conn.Blobs(crumbs.AreaCall(group))
	}
	return w.blobs
}
