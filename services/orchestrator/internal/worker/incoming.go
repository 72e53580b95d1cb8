package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// incoming is a message of the orchestrator, decoded.
type incoming struct {
	kind   core.EventKind
	run    crumbs.RunID
	event  core.Event
	yields bool // to an answer that waits in INBOX: a deadline, an order
	read   bool // the record was taken for absent once; read it now

	request     *crumbs.RunRequest
	requestHash string
	refused     *fault.Error
	delivery    *mesh.Delivery
}

// answers reports whether this message settles the call of an intent: its command
// was sent long ago, or need not be sent any more.
func (in *incoming) answers(i core.Intent) bool {
	switch in.kind {
	case core.ModelResult:
		return i.Kind == core.SendModel && i.Call == in.event.Model.CallID && i.Attempt == in.event.Model.Attempt
	case core.CallResult:
		return i.Kind == core.SendTool && i.Call == in.event.Result.CallID && i.Attempt == in.event.Result.Attempt
	case core.TimerDue:
		return i.Kind == core.SetTimer && i.V == in.event.Timer.V
	case core.Ordered:
		return (i.Kind == core.SendModel || i.Kind == core.SendTool) && i.Call == in.event.Order.CallID && i.Attempt == in.event.Order.Attempt
	case core.Control: // a cancel settles every call: it must not wait for a full queue
		return i.Kind == core.SendModel || i.Kind == core.SendTool
	}
	return false
}

// answered is the question that this message answers, "" when it answers none: what
// is sent because of it links to the wait.
func (in *incoming) answered() crumbs.CheckpointID {
	if in == nil || in.kind != core.Decided {
		return ""
	}
	return in.event.Decision.CheckpointID
}

// heldUp is how long a message may wait and still count as decided when it came.
const heldUp = 2 * time.Second

// eventTime is when a message happened: when it was stored. What an outage held
// up happens as the outage ends, or the commands it leads to would be void before
// they are sent, and every run of the night would fail in the morning.
func eventTime(stored time.Time) crumbs.Time {
	if now := time.Now(); now.Sub(stored) > heldUp {
		return crumbs.At(now)
	}
	return crumbs.At(stored)
}

// decode reads a message by its subject. What can never be decided is dead.
func (w *Worker) decode(ctx context.Context, d *mesh.Delivery) (*incoming, error) {
	head, rest, _ := strings.Cut(d.Subject, ".")
	verb, _, _ := strings.Cut(rest, ".")
	switch head + "." + verb {
	case "run.request":
		return w.decodeRequest(d)
	case "run.control":
		return w.decodeControl(d)
	case "model.result":
		r := &crumbs.ModelResult{}
		run, err := w.body(ctx, d, 3, r)
		if err != nil {
			return nil, err
		}
		if crumbs.ModelResultSubject(crumbs.Token(d.Subject, 2), r.CallID, r.Attempt) != d.Subject || r.RunID != run {
			return nil, mesh.Dead(run, disagrees(d))
		}
		if err := checkStatus(d, r.Status, crumbs.StatusOK, crumbs.StatusError, crumbs.StatusCancelled); err != nil {
			return nil, mesh.Dead(run, err)
		}
		return &incoming{kind: core.ModelResult, run: run, delivery: d, event: core.Event{Kind: core.ModelResult, At: eventTime(d.Stored), Model: r}}, nil
	case "tool.result":
		r := &crumbs.ToolResult{}
		run, err := w.body(ctx, d, 3, r)
		if err != nil {
			return nil, err
		}
		if crumbs.ToolResultSubject(r.Group, r.CallID, r.Attempt) != d.Subject || r.RunID != run {
			return nil, mesh.Dead(run, disagrees(d))
		}
		if err := checkStatus(d, r.Status, crumbs.StatusOK, crumbs.StatusError, crumbs.StatusUnknown, crumbs.StatusCancelled); err != nil {
			return nil, mesh.Dead(run, err)
		}
		carriable(r)
		return &incoming{kind: core.CallResult, run: run, delivery: d, event: core.Event{Kind: core.CallResult, At: eventTime(d.Stored), Result: r}}, nil
	case "run.order":
		return w.decodeOrder(ctx, d)
	case "approval.decision":
		return w.decodeDecision(ctx, d)
	case "timer.due":
		t := &crumbs.TimerDue{}
		run, err := w.body(ctx, d, 2, t)
		if err != nil {
			return nil, err
		}
		if crumbs.TimerDueSubject(t.RunID, t.V) != d.Subject || t.At.IsZero() {
			return nil, mesh.Dead(run, disagrees(d))
		}
		return &incoming{kind: core.TimerDue, run: run, yields: true, delivery: d, event: core.Event{Kind: core.TimerDue, At: eventTime(t.At.Time), Timer: t}}, nil
	}
	return nil, mesh.Dead("", fault.New(fault.NotAvailable, "subject %s: this version does not decide such messages", d.Subject))
}

// carriable turns a result that is nested too deep for records and prompts into an
// error: our workers refuse it themselves, others may not.
func carriable(r *crumbs.ToolResult) {
	if depth := argument.Depth(r.Result); depth > argument.ResultDepthMax {
		r.Status, r.Result = crumbs.StatusError, nil
		r.Error = fault.New(fault.ToolResultInvalid, "the tool's result is nested %d levels deep, the limit is %d", depth, argument.ResultDepthMax)
	}
	if r.Error == nil {
		return
	}
	if b, err := json.Marshal(r.Error.Context); err != nil || argument.Depth(b) > argument.ResultDepthMax {
		r.Error.Context = nil
	}
}

// checkStatus refuses a result, or an order, that says none of what it may say: its
// call then ends by its deadline, honestly.
func checkStatus(d *mesh.Delivery, status string, known ...string) error {
	if slices.Contains(known, status) {
		return nil
	}
	return fault.New(fault.InvalidMessage, "%s: status %q: expected one of %s", d.Subject, status, strings.Join(known, ", "))
}

func disagrees(d *mesh.Delivery) error {
	return fault.New(fault.InvalidMessage, "%s: the body names another run, call or attempt than the subject", d.Subject)
}

// body decodes a message whose subject has the run at token n.
func (w *Worker) body(ctx context.Context, d *mesh.Delivery, n int, out any) (crumbs.RunID, error) {
	run := crumbs.RunID(crumbs.Token(d.Subject, n))
	if err := crumbs.CheckRunID("run", string(run)); err != nil {
		return "", mesh.Dead("", err)
	}
	e, err := crumbs.ReadEvent(d.Header, d.Data)
	if err != nil {
		return run, mesh.Dead(run, err)
	}
	data, err := w.conn.Blobs(areaOf(d.Subject)).CheckOut(ctx, e.Data)
	if err != nil {
		if fault.CodeOf(err) == fault.Unavailable {
			return run, err
		}
		return run, mesh.Dead(run, err)
	}
	if err := json.Unmarshal(data, out); err != nil {
		return run, mesh.Dead(run, fault.Wrap(fault.InvalidMessage, err, "%s: the body is not what its subject says", d.Subject))
	}
	return run, nil
}

// areaOf is where the author of a message puts a large body: the subject says who
// that is.
func areaOf(subject string) crumbs.Area {
	queue := crumbs.Token(subject, 2)
	switch {
	case strings.HasPrefix(subject, "tool.result."):
		return crumbs.AreaTool(queue)
	case strings.HasPrefix(subject, "model.result."):
		return crumbs.AreaModel(queue)
	case strings.HasPrefix(subject, "approval.decision."):
		return crumbs.AreaApproval
	}
	return crumbs.AreaCore
}

func (w *Worker) decodeControl(d *mesh.Delivery) (*incoming, error) {
	c := &crumbs.RunControl{}
	run := crumbs.RunID(crumbs.Token(d.Subject, 2))
	e, err := crumbs.ReadEvent(d.Header, d.Data)
	if err == nil {
		err = crumbs.CheckRunID("run", string(run))
	}
	if err == nil {
		err = json.Unmarshal(e.Data, c)
	}
	if err != nil {
		return nil, mesh.Dead(run, fault.Wrap(fault.InvalidMessage, err, "%s: expected a run.control body", d.Subject))
	}
	if c.RunID = run; c.Action != crumbs.ActionCancel {
		return nil, mesh.Dead(run, fault.New(fault.NotAvailable, "control action %q: this version knows %q only", c.Action, crumbs.ActionCancel))
	}
	return &incoming{kind: core.Control, run: run, delivery: d, event: core.Event{Kind: core.Control, At: eventTime(d.Stored), Control: c}}, nil
}

func (w *Worker) decodeOrder(ctx context.Context, d *mesh.Delivery) (*incoming, error) {
	o := &crumbs.RunOrder{}
	run, err := w.body(ctx, d, 2, o)
	if err != nil {
		return nil, err
	}
	if crumbs.OrderSubject(o.CallID, o.Attempt) != d.Subject || o.RunID != run {
		return nil, mesh.Dead(run, disagrees(d))
	}
	if err := checkStatus(d, o.Action, crumbs.OrderRedrive, crumbs.OrderAnswer, crumbs.OrderLost); err != nil {
		return nil, mesh.Dead(run, err)
	}
	return &incoming{kind: core.Ordered, run: run, yields: true, delivery: d, event: core.Event{Kind: core.Ordered, At: eventTime(d.Stored), Order: o}}, nil
}

func (w *Worker) decodeDecision(ctx context.Context, d *mesh.Delivery) (*incoming, error) {
	a := &crumbs.Decision{}
	run, err := w.body(ctx, d, 2, a)
	if err != nil {
		return nil, err
	}
	if crumbs.DecisionSubject(a.RunID, a.CheckpointID) != d.Subject {
		return nil, mesh.Dead(run, disagrees(d))
	}
	if err := w.cfg.Verify(*a); err != nil {
		return nil, mesh.Dead(run, err)
	}
	return &incoming{kind: core.Decided, run: run, delivery: d, event: core.Event{Kind: core.Decided, At: eventTime(d.Stored), Decision: a}}, nil
}

// decodeRequest reads a run request, also a bare one without ce-* headers. What
// is wrong with it is told by the run's one crumb, not by silence.
func (w *Worker) decodeRequest(d *mesh.Delivery) (*incoming, error) {
	agentID := crumbs.AgentID(crumbs.Token(d.Subject, 2))
	if err := crumbs.CheckAgentID(string(agentID)); err != nil {
		return nil, mesh.Dead("", err)
	}
	in := &incoming{kind: core.Requested, delivery: d, request: &crumbs.RunRequest{AgentID: agentID},
		event: core.Event{Kind: core.Requested, At: eventTime(d.Stored)}}
	derived := crumbs.DerivedRunID(d.Stored, crumbs.StreamRequests, d.Sequence)
	e, err := crumbs.ReadEvent(d.Header, d.Data)
	if err == nil && json.Unmarshal(e.Data, in.request) != nil {
		err = fault.New(fault.InvalidMessage, "run.request: expected a JSON object like {\"input\": …}")
	}
	if err != nil {
		in.run, in.refused = derived, fault.From(err)
		in.request = &crumbs.RunRequest{RunID: derived, AgentID: agentID}
		return in, nil
	}
	if in.request.DataRef == nil && e.DataRef != "" {
		in.request.DataRef = &crumbs.DataRef{Object: e.DataRef} // said in the header only
	}
	in.run = in.request.RunID
	if in.run == "" {
		in.run = crumbs.RunID(d.Header.Get("Nats-Msg-Id"))
	}
	if in.run == "" {
		in.run = derived
	}
	if err := crumbs.CheckRunID("run", string(in.run)); err != nil {
		in.run, in.refused = derived, fault.From(err)
	}
	if in.request.AgentID != "" && in.request.AgentID != agentID {
		in.refused = fault.New(fault.InvalidMessage, "the body names agent %q, the subject %q: they must agree", in.request.AgentID, agentID)
	}
	in.request.RunID, in.request.AgentID = in.run, agentID
	in.requestHash = RequestHash(*in.request)
	return in, nil
}

// sameJSON writes an input in one form: no input is {}, key order and spaces do
// not matter, numbers stay as they were written.
func sameJSON(input json.RawMessage) json.RawMessage {
	if len(input) == 0 {
		return json.RawMessage(`{}`)
	}
	dec := json.NewDecoder(bytes.NewReader(input))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return input
	}
	out, err := json.Marshal(v)
	if err != nil {
		return input
	}
	return out
}

// RequestHash tells a repeated request from another one under the same run id.
func RequestHash(r crumbs.RunRequest) string {
	r.Type, r.DataRef, r.Input = "", nil, sameJSON(r.Input)
	body, err := json.Marshal(r)
	if err != nil {
		body = []byte(err.Error()) // raw fields were checked as JSON; kept total all the same
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:16])
}
