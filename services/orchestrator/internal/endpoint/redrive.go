package endpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/worker"
)

// deadRedrive has a message worked on again, as its kind allows: a request is asked
// for again under its run id, a call gets its next attempt from its run, a control
// goes back while its run lives. The rest is refused with what can be done instead:
// results, decisions, crumbs are said by one service only, and not by this one.
func (e *Endpoints) deadRedrive(ctx context.Context, body json.RawMessage) (any, error) {
	var r crumbs.DeadRedrive
	if err := decode(body, &r, `{"id":17,"by":{"iss":"local","sub":"ada"}}`); err != nil {
		return nil, err
	}
	if err := operator(r.By, r.Reason); err != nil {
		return nil, err
	}
	if err := oneOf(r.ID, r.CallID); err != nil {
		return nil, err
	}
	if r.CallID != "" {
		return e.order(ctx, order{action: crumbs.OrderRedrive, call: r.CallID, by: r.By, reason: r.Reason, force: r.Force})
	}
	s, l, err := e.dead(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	edit, err := e.newestEdit(ctx, s, l)
	if err != nil {
		return nil, err
	}
	if receipt, ok, err := e.redrivenLetter(ctx, l, edit); err != nil || ok && !r.Force {
		return receipt, err
	}
	if l.Stream == crumbs.StreamToolCalls || l.Stream == crumbs.StreamModelCalls {
		return e.redriveCall(ctx, r, s, l)
	}
	if s, err = e.edited(ctx, s, l, edit); err != nil {
		return nil, err
	}
	if withheld := s.Header.Get(mesh.DeadWithheld); withheld != "" && s.Header.Get(crumbs.DeadAct) != crumbs.ActEdit {
		return nil, refuse(l, "the values of %s were not kept; `crumb dead edit` can put them in again", withheld)
	}
	receipt := crumbs.DeadReceipt{ID: r.ID, RunID: l.RunID, Act: crumbs.ActRedrive, By: actor(r.By)}
	if l.Stream == crumbs.StreamRequests {
		receipt.RunID, receipt.Already, err = e.redriveRequest(ctx, s, l, edit)
	} else {
		err = e.redriveMessage(ctx, s, l, edit)
	}
	if err != nil {
		return nil, err
	}
	if receipt.Already {
		receipt.Applied = true
		return receipt, nil
	}
	_, err = e.note(ctx, s, crumbs.ActRedrive, r.By, r.Reason, body)
	return receipt, err
}

func oneOf(id uint64, call crumbs.CallID) error {
	if (id == 0) == (call == "") {
		return fault.New(fault.InvalidMessage, `expected the id of a dead letter like {"id":17} or a call like {"callId":"run_….1.0"}, and not both`)
	}
	if call != "" {
		return crumbs.CheckCallID(call)
	}
	return nil
}

func refuse(l crumbs.DeadLetter, format string, args ...any) error {
	e := fault.New(fault.RedriveRefused, format, args...)
	e.Message = "letter " + strconv.FormatUint(l.ID, 10) + " came from " + l.Subject + ": " + e.Message
	return e
}

// newestEdit is what stands for a letter now: its last edit, nil when it has none. An
// edit named by its own id stands for itself.
func (e *Endpoints) newestEdit(ctx context.Context, s *mesh.Stored, l crumbs.DeadLetter) (*mesh.Stored, error) {
	if l.Of != 0 {
		return s, nil
	}
	return e.Conn.Last(ctx, crumbs.StreamDead, l.DeadSubject()+"."+crumbs.ActEdit)
}

// redrivenLetter is the receipt of a redrive that was done before, false when there
// was none of the letter as it stands: what was edited since is another message.
func (e *Endpoints) redrivenLetter(ctx context.Context, l crumbs.DeadLetter, edit *mesh.Stored) (crumbs.DeadReceipt, bool, error) {
	before, err := e.Conn.Last(ctx, crumbs.StreamDead, l.DeadSubject()+"."+crumbs.ActRedrive)
	if err != nil || before == nil || before.Sequence < version(edit) {
		return crumbs.DeadReceipt{}, false, err
	}
	n := asNote(*before)
	receipt := crumbs.DeadReceipt{ID: l.ID, RunID: l.RunID, CallID: l.CallID, Act: crumbs.ActRedrive, Applied: true, Already: true, By: n.By, At: &n.At}
	if l.CallID != "" {
		receipt.Attempt = l.Attempt + 1
	}
	return receipt, true, nil
}

// version tells the forms of one letter apart: 0 as it came, else the id of its edit.
func version(edit *mesh.Stored) uint64 {
	if edit == nil {
		return 0
	}
	return edit.Sequence
}

// edited is the letter with the body and headers of its edit.
func (e *Endpoints) edited(ctx context.Context, s *mesh.Stored, l crumbs.DeadLetter, edit *mesh.Stored) (*mesh.Stored, error) {
	if edit == nil {
		return s, nil
	}
	letter, data := *s, s.Data
	var err error
	if l.Of != 0 { // s is the edit, and its body is whole
		if s, _, err = e.dead(ctx, l.Of); err != nil {
			return nil, err
		}
		letter = *s
	} else if data, err = e.Conn.Blobs(crumbs.DeadArea(edit.Subject)).CheckOut(ctx, edit.Data); err != nil {
		return nil, err
	}
	letter.Data, letter.Header = data, edit.Header
	return &letter, nil
}

// redriveID makes the server drop a second copy of one redrive, and no other: not of
// the letter in another form.
func redriveID(l crumbs.DeadLetter, edit *mesh.Stored, more ...string) jetstream.PublishOpt {
	parts := append([]string{"redrive", strconv.FormatUint(editable(l), 10), strconv.FormatUint(version(edit), 10)}, more...)
	return jetstream.WithMsgID(strings.Join(parts, "."))
}

// redriveRequest asks for the run again. A run that exists by then was asked for
// with the same body (already) or another one (RUN_CONFLICT).
func (e *Endpoints) redriveRequest(ctx context.Context, s *mesh.Stored, l crumbs.DeadLetter, edit *mesh.Stored) (run crumbs.RunID, already bool, err error) {
	var r crumbs.RunRequest
	if err := json.Unmarshal(s.Data, &r); err != nil {
		return l.RunID, false, refuse(l, "its body is no JSON object; `crumb dead edit %d` can mend it", editable(l))
	}
	if r.AgentID == "" {
		r.AgentID = crumbs.AgentID(crumbs.Token(l.Subject, 2))
	}
	if r.RunID == "" {
		r.RunID = l.RunID
	}
	if lacks := lacking(r); len(lacks) > 0 {
		return l.RunID, false, refuse(l, "its body has no valid %s; set it with `crumb dead edit %d`, like {%s}", strings.Join(lacks, " and no valid "), editable(l),
			`"agentId":"clerk","runId":"`+string(crumbs.NewRunID())+`"`)
	}
	state, err := e.state(ctx, r.RunID)
	switch code := fault.CodeOf(err); {
	case err == nil && !state.Run.Tombstone && state.Run.RequestHash != worker.RequestHash(r):
		return r.RunID, false, fault.New(fault.RunConflict, "run id %s was used before with another request; `crumb dead edit %d` can set another runId", r.RunID, editable(l))
	case err == nil && !state.Run.Tombstone:
		return r.RunID, true, nil
	case err != nil && code != fault.RunNotFound:
		return r.RunID, false, err
	}
	r.Type = crumbs.TypeRunRequest
	data, err := json.Marshal(r)
	if err != nil {
		return r.RunID, false, fault.From(err)
	}
	return r.RunID, false, e.again(ctx, s, crumbs.RequestSubject(r.AgentID), data, redriveID(l, edit, string(r.RunID)))
}

// lacking names all fields that a request needs and does not have.
func lacking(r crumbs.RunRequest) (names []string) {
	if crumbs.CheckAgentID(string(r.AgentID)) != nil {
		names = append(names, "agentId")
	}
	if crumbs.CheckRunID("run", string(r.RunID)) != nil {
		names = append(names, "runId")
	}
	return names
}

// editable is the id to edit: of the letter, also when one of its edits is spoken of.
func editable(l crumbs.DeadLetter) uint64 { return cmp.Or(l.Of, l.ID) }

// again publishes a message once more, with the headers it came with.
func (e *Endpoints) again(ctx context.Context, s *mesh.Stored, subject string, data []byte, opts ...jetstream.PublishOpt) error {
	msg := &nats.Msg{Subject: subject, Header: nats.Header{}, Data: data}
	for k, v := range s.Header {
		if !crumbs.DeadHeader(k) && !strings.HasPrefix(k, "Nats-") {
			msg.Header[k] = v
		}
	}
	_, err := e.Conn.Publish(ctx, msg, opts...)
	return err
}

// redriveMessage puts a control back, and says of the rest why not.
func (e *Endpoints) redriveMessage(ctx context.Context, s *mesh.Stored, l crumbs.DeadLetter, edit *mesh.Stored) error {
	head, rest, _ := strings.Cut(l.Subject, ".")
	verb, _, _ := strings.Cut(rest, ".")
	switch head + "." + verb {
	case "run.control":
		return e.redriveControl(ctx, s, l, edit)
	case "timer.due":
		return refuse(l, "a run arms its timers itself; `crumb runs get %s` shows where it is", l.RunID)
	case "approval.decision":
		return refuse(l, "the approvals service, which alone publishes decisions, repeats it until the run has spoken")
	case "tool.result":
		return refuse(l, "a worker alone says what it did; supply the outcome with `crumb dead answer CALL`")
	case "model.result":
		return refuse(l, "a model gateway alone says what a model answered; have it asked again with `crumb dead redrive RUN.STEP.m`")
	case "run.order":
		return refuse(l, "give the order again: `crumb dead redrive CALL` or `crumb dead answer CALL`")
	}
	switch l.Stream {
	case "KV_" + crumbs.BucketRuns:
		return refuse(l, "it is the record of a run that could not be decided about and has ended; start another run")
	case crumbs.StreamCrumbs:
		return refuse(l, "a crumb stands on its stream once and for ever; the approvals service reads it again when its bucket is made anew")
	}
	return refuse(l, "this version knows no such messages")
}

func (e *Endpoints) redriveControl(ctx context.Context, s *mesh.Stored, l crumbs.DeadLetter, edit *mesh.Stored) error {
	var c crumbs.RunControl
	if err := crumbs.Decode(crumbs.TypeRunControl, withType(s.Data, crumbs.TypeRunControl), &c); err != nil {
		return refuse(l, "its body is no control (%s); `crumb dead edit %d` can mend it", fault.From(err).Message, editable(l))
	}
	if state, err := e.state(ctx, l.RunID); err == nil && state.Status.Ended() {
		return ended(state)
	}
	return e.again(ctx, s, crumbs.ControlSubject(l.RunID), s.Data, redriveID(l, edit))
}

func ended(s core.State) error {
	return fault.New(fault.RunEnded, "run %s has ended: it is %s since %s", s.Run.ID, s.Status, s.Run.EndedAt.UTC().Format(time.RFC3339))
}
