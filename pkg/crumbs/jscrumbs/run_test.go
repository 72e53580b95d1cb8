package jscrumbs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs/jscrumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// agent writes all runs of these tests.
const agent = crumbs.AgentID("publisher")

// author writes the crumbs and deltas of a run as the services do.
type author struct {
	t     *testing.T
	conn  *mesh.Conn
	run   crumbs.RunID
	fence jscrumbs.Fence
}

func newAuthor(t *testing.T, conn *mesh.Conn, run crumbs.RunID) *author {
	return &author{t: t, conn: conn, run: run}
}

// body returns a body of the run.
func (a *author) body(typ string, seq uint64, fields map[string]any) json.RawMessage {
	a.t.Helper()
	all := map[string]any{"type": typ, "runId": a.run, "agentId": agent, "sessionId": "ses_1", "seq": seq, "timestamp": 1, "step": 1}
	for k, v := range fields {
		all[k] = v
	}
	text, err := json.Marshal(all)
	if err != nil {
		a.t.Fatal(err)
	}
	return text
}

func (a *author) message(subject, typ string, seq uint64, body json.RawMessage) *nats.Msg {
	a.t.Helper()
	msg, err := crumbs.Event{
		ID: fmt.Sprintf("%s/%d", a.run, seq), Source: crumbs.Source("test"), Type: crumbs.CEType(typ), Subject: "run/" + string(a.run),
		RunID: a.run, AgentID: agent, Sequence: seq, Data: body,
	}.Message(subject)
	if err != nil {
		a.t.Fatal(err)
	}
	return msg
}

// messageOf returns the crumb with a number.
func (a *author) messageOf(seq uint64, typ string, fields map[string]any) *nats.Msg {
	a.t.Helper()
	return a.message(crumbs.CrumbSubject(agent, a.run, typ), typ, seq, a.body(typ, seq, fields))
}

// crumb stores the run's next crumb.
func (a *author) crumb(typ string, fields map[string]any) {
	a.t.Helper()
	seq := a.fence.Seq + 1
	a.store(seq, a.messageOf(seq, typ, fields))
}

func (a *author) store(seq uint64, msg *nats.Msg) {
	a.t.Helper()
	fence, err := jscrumbs.Append(context.Background(), a.conn, crumbs.CrumbFilter(agent, a.run), a.fence, seq, []*nats.Msg{msg})
	if err != nil {
		a.t.Fatal(err)
	}
	a.fence = fence
}

// crumbs stores one crumb of each type.
func (a *author) crumbs(types ...string) {
	a.t.Helper()
	for _, typ := range types {
		a.crumb(typ, nil)
	}
}

// text stores text delta index of step 1, attempt 1.
func (a *author) text(afterSeq uint64, index int) {
	a.t.Helper()
	a.delta(crumbs.ModelDeltaSubject(agent, a.run, crumbs.TypeTextDelta), crumbs.TypeTextDelta, afterSeq,
		map[string]any{"attempt": 1, "index": index, "delta": fmt.Sprint("t", index)})
}

// partial stores a partial of a tool call.
func (a *author) partial(afterSeq uint64, call crumbs.CallID, attempt, index int) {
	a.t.Helper()
	a.delta(crumbs.PartialSubject(agent, a.run, "docs"), crumbs.TypeResultPartial, afterSeq,
		map[string]any{"attempt": attempt, "index": index, "toolCallId": call, "toolName": "tool_read", "result": index})
}

func (a *author) delta(subject, typ string, afterSeq uint64, fields map[string]any) {
	a.t.Helper()
	a.publish(a.message(subject, typ, afterSeq, a.body(typ, afterSeq, fields)))
}

func (a *author) publish(msg *nats.Msg) {
	a.t.Helper()
	if _, err := a.conn.Publish(context.Background(), msg); err != nil {
		a.t.Fatal(err)
	}
}

// label names an item shortly: `3 tool:call`, `1 text:delta 0`, `4 step:end -2`
// when two deltas are missing.
func label(i jscrumbs.Item) string {
	switch {
	case i.Delta && i.Attempt > 1:
		return fmt.Sprintf("%d %s %d/%d", i.Seq, i.Type, i.Attempt, i.Index)
	case i.Delta:
		return fmt.Sprintf("%d %s %d", i.Seq, i.Type, i.Index)
	case i.DeltasMissing > 0:
		return fmt.Sprintf("%d %s -%d", i.Seq, i.Type, i.DeltasMissing)
	}
	return fmt.Sprintf("%d %s", i.Seq, i.Type)
}
