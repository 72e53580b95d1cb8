package endpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// deadReasonMax bounds a reason in a list, in bytes.
const deadReasonMax = 256

func (e *Endpoints) deadList(ctx context.Context, body json.RawMessage) (any, error) {
	var r crumbs.DeadList
	if err := decode(body, &r, `{"stream":"TOOLCALLS","runId":"run_…","limit":50}`); err != nil {
		return nil, err
	}
	limit := cmp.Or(r.Limit, listDefault)
	if limit < 1 || limit > listMax {
		return nil, fault.New(fault.InvalidMessage, "limit %d: expected 1 to %d", r.Limit, listMax)
	}
	if err := checkDeadFilter(r); err != nil {
		return nil, err
	}
	last, err := e.Conn.LastSequence(ctx, crumbs.StreamDead)
	if err != nil {
		return nil, err
	}
	before := last + 1
	if r.Before > 0 {
		before = min(before, r.Before)
	}
	from := deadFrom(before)
	page, more := crumbs.DeadPage{Letters: []crumbs.DeadLetter{}}, false
	err = e.Conn.DeadLetters(ctx, crumbs.DeadFilter(r.Stream, r.RunID), from, before, func(s mesh.Stored, bytes int) {
		l := letter(s)
		if r.Stream != "" && l.Stream != r.Stream {
			return
		}
		l.Bytes, l.Reason = int64(bytes), clip(l.Reason, deadReasonMax)
		if page.Letters = append(page.Letters, l); len(page.Letters) > 2*limit {
			page.Letters, more = slices.Delete(page.Letters, 0, len(page.Letters)-limit), true
		}
	})
	if err != nil {
		return nil, err
	}
	if over := len(page.Letters) - limit; over > 0 {
		page.Letters, more = slices.Delete(page.Letters, 0, over), true
	}
	slices.Reverse(page.Letters)
	switch {
	case more:
		page.Next = page.Letters[len(page.Letters)-1].ID
	case from > 1:
		page.Next = from
	}
	for i := range page.Letters {
		l := &page.Letters[i]
		note, err := e.Conn.Last(ctx, crumbs.StreamDead, l.DeadSubject()+".*")
		if err != nil {
			return nil, err
		}
		if note != nil {
			l.Status, l.Acts = status(note.Header.Get(crumbs.DeadAct)), []crumbs.DeadNote{asNote(*note)}
		}
	}
	return page, nil
}

// deadFrom is the first id that one look at the letters below before takes in.
func deadFrom(before uint64) uint64 {
	if before > mesh.DeadScanMax {
		return before - mesh.DeadScanMax
	}
	return 1
}

// checkDeadFilter keeps what a caller names out of the grammar of subjects.
func checkDeadFilter(r crumbs.DeadList) error {
	if r.Stream != "" && !slices.Contains(deadStreams(), r.Stream) {
		return fault.New(fault.InvalidMessage, "stream %.32q: expected one of %s", r.Stream, strings.Join(deadStreams(), ", "))
	}
	if r.RunID != "" {
		return crumbs.CheckRunID("run", string(r.RunID))
	}
	return nil
}

// deadStreams are those that letters come from.
func deadStreams() []string {
	return []string{crumbs.StreamRequests, crumbs.StreamInbox, crumbs.StreamTimers, crumbs.StreamModelCalls, crumbs.StreamToolCalls, crumbs.StreamCrumbs, "KV_" + crumbs.BucketRuns}
}

func clip(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}

func status(act string) string {
	switch act {
	case crumbs.ActEdit:
		return crumbs.DeadEdited
	case crumbs.ActRedrive:
		return crumbs.DeadRedriven
	case crumbs.ActAnswer:
		return crumbs.DeadAnswered
	case crumbs.ActClose:
		return crumbs.DeadClosed
	}
	return crumbs.DeadOpen
}

// letter reads what the headers of a letter say.
func letter(s mesh.Stored) crumbs.DeadLetter {
	h := s.Header.Get
	l := crumbs.DeadLetter{ID: s.Sequence, Stream: h(crumbs.DeadStream), Subject: h(crumbs.DeadOfSubject), RunID: crumbs.DeadRun(s.Subject),
		Code: fault.Code(h(crumbs.DeadCode)), Reason: h(crumbs.DeadReason), By: h(crumbs.DeadBy), Status: crumbs.DeadOpen, At: crumbs.At(s.Time)}
	if label := crumbs.Token(s.Subject, 1); label != crumbs.DeadLabel(l.Stream, l.Subject) {
		// Who may give up one queue's messages speaks for no other stream.
		l.Stream, _, _ = strings.Cut(label, "-")
		l.Subject = ""
	}
	l.Sequence, _ = strconv.ParseUint(h(crumbs.DeadSequence), 10, 64) // 0: it does not say
	l.Deliveries, _ = strconv.Atoi(h(crumbs.DeadDeliveries))
	l.Of, _ = strconv.ParseUint(h(crumbs.DeadOf), 10, 64)
	if at, err := time.Parse(time.RFC3339Nano, h(crumbs.DeadStored)); err == nil {
		stored := crumbs.At(at)
		l.StoredAt = &stored
	}
	if at, err := time.Parse(time.RFC3339Nano, h(crumbs.DeadAt)); err == nil {
		l.At = crumbs.At(at)
	}
	if l.Stream == crumbs.StreamToolCalls || l.Stream == crumbs.StreamModelCalls {
		l.CallID, l.Attempt = crumbs.ParseAttempt(h("ce-id"))
		if l.CallID.Run() != l.RunID {
			l.CallID, l.Attempt = "", 0
		}
	}
	return l
}

func asNote(s mesh.Stored) crumbs.DeadNote {
	n := crumbs.DeadNote{ID: s.Sequence, Act: s.Header.Get(crumbs.DeadAct), By: s.Header.Get(crumbs.DeadActor), Reason: s.Header.Get(crumbs.DeadNoteReason), At: crumbs.At(s.Time)}
	return n
}

// dead reads a letter, or the edited form of one, whole. It fails with
// DEAD_LETTER_NOT_FOUND.
func (e *Endpoints) dead(ctx context.Context, id uint64) (*mesh.Stored, crumbs.DeadLetter, error) {
	if id == 0 {
		return nil, crumbs.DeadLetter{}, fault.New(fault.InvalidMessage, `id: expected the id of a dead letter like {"id":17}; crumbmesh.dead.list has them`)
	}
	s, err := e.Conn.Message(ctx, crumbs.StreamDead, id)
	if err != nil {
		return nil, crumbs.DeadLetter{}, err
	}
	if s == nil || !crumbs.IsDeadLetter(s.Subject) && s.Header.Get(crumbs.DeadAct) != crumbs.ActEdit {
		return nil, crumbs.DeadLetter{}, fault.New(fault.DeadLetterNotFound, "no dead letter %d is kept", id)
	}
	l := letter(*s)
	whole, err := e.Conn.Blobs(crumbs.DeadArea(s.Subject)).CheckOut(ctx, s.Data)
	switch {
	case err == nil:
		s.Data, l.Bytes = whole, int64(len(whole))
	case fault.CodeOf(err) == fault.Unavailable:
		return nil, l, err
	} // what names no value, or one that is gone, is shown and edited as it came
	return s, l, nil
}

func (e *Endpoints) deadGet(ctx context.Context, body json.RawMessage) (any, error) {
	var r crumbs.DeadGet
	if err := decode(body, &r, `{"id":17}`); err != nil {
		return nil, err
	}
	s, l, err := e.dead(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	l.Headers = map[string]string{}
	for k, v := range s.Header {
		if !crumbs.DeadHeader(k) && len(v) > 0 && !strings.HasPrefix(k, "Nats-") {
			l.Headers[k] = v[0]
		}
	}
	if withheld := s.Header.Get(mesh.DeadWithheld); withheld != "" {
		l.Headers[mesh.DeadWithheld] = withheld
	}
	switch {
	case len(s.Data) > mesh.InlineMax: // too large for a reply: the object of blobs, or the letter itself, has it
	case json.Valid(s.Data):
		l.Body = s.Data
	default:
		l.Raw = s.Data
	}
	l.Status, l.Acts, err = e.notes(ctx, l)
	return l, err
}

// notes are the last edit, redrive, answer and close of a letter, in their order.
func (e *Endpoints) notes(ctx context.Context, l crumbs.DeadLetter) (string, []crumbs.DeadNote, error) {
	var acts []crumbs.DeadNote
	for _, act := range []string{crumbs.ActEdit, crumbs.ActRedrive, crumbs.ActAnswer, crumbs.ActClose} {
		n, err := e.Conn.Last(ctx, crumbs.StreamDead, l.DeadSubject()+"."+act)
		if err != nil {
			return "", nil, err
		}
		if n != nil {
			acts = append(acts, asNote(*n))
		}
	}
	slices.SortFunc(acts, func(a, b crumbs.DeadNote) int { return cmp.Compare(a.ID, b.ID) })
	if len(acts) == 0 {
		return crumbs.DeadOpen, nil, nil
	}
	return status(acts[len(acts)-1].Act), acts, nil
}

// operator checks who gives an order and why.
func operator(by *crumbs.Principal, reason string) error {
	if by == nil || by.Issuer == "" || by.Subject == "" {
		return fault.New(fault.InvalidMessage, `by: expected who does this, like {"iss":"local","sub":"ada"}`)
	}
	if n := len(by.Issuer) + len(by.Subject) + len(by.Tenant); n > operatorMax {
		return fault.New(fault.InvalidMessage, "by has %d bytes: at most %d", n, operatorMax)
	}
	if len(reason) > deadNoteMax {
		return fault.New(fault.InvalidMessage, "reason has %d bytes: at most %d", len(reason), deadNoteMax)
	}
	return nil
}

// Bounds of who orders something and why, in bytes.
const (
	operatorMax = 256
	deadNoteMax = 1 << 10
)

func actor(by *crumbs.Principal) string { return by.Issuer + ":" + by.Subject }

// note keeps what was done about a letter.
func (e *Endpoints) note(ctx context.Context, s *mesh.Stored, act string, by *crumbs.Principal, reason string, data []byte) (uint64, error) {
	return e.Conn.DeadNote(ctx, s, act, map[string]string{crumbs.DeadActor: actor(by), crumbs.DeadNoteReason: reason}, data)
}

func (e *Endpoints) deadEdit(ctx context.Context, body json.RawMessage) (any, error) {
	var r crumbs.DeadEdit
	if err := decode(body, &r, `{"id":17,"body":{…},"by":{"iss":"local","sub":"ada"}}`); err != nil {
		return nil, err
	}
	if err := operator(r.By, r.Reason); err != nil {
		return nil, err
	}
	s, l, err := e.dead(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	if err := checkEdit(l, r.Body); err != nil {
		return nil, err
	}
	if l.Of != 0 { // an edit of an edit stands beside the same letter
		if s, l, err = e.dead(ctx, l.Of); err != nil {
			return nil, err
		}
	}
	id, err := e.note(ctx, s, crumbs.ActEdit, r.By, r.Reason, r.Body)
	if err != nil {
		return nil, err
	}
	return crumbs.DeadReceipt{ID: id, Of: l.ID, RunID: l.RunID, Act: crumbs.ActEdit, Applied: true, By: actor(r.By)}, nil
}

// checkEdit refuses to edit what would not be sent as edited.
func checkEdit(l crumbs.DeadLetter, body json.RawMessage) error {
	why := ""
	switch {
	case l.Stream == crumbs.StreamRequests:
		return crumbs.Decode(crumbs.TypeRunRequest, withType(body, crumbs.TypeRunRequest), new(crumbs.RunRequest))
	case strings.HasPrefix(l.Subject, "run.control."):
		return crumbs.Decode(crumbs.TypeRunControl, withType(body, crumbs.TypeRunControl), new(crumbs.RunControl))
	case l.CallID != "" || l.Stream == crumbs.StreamToolCalls || l.Stream == crumbs.StreamModelCalls:
		why = "a call is sent again as its run has it; supply an outcome with `crumb dead answer`, or cancel the run"
	case strings.HasPrefix(l.Subject, "approval.decision."):
		why = "a decision is signed: answer the question again"
	default:
		why = "only requests and controls can be sent again with another body"
	}
	return fault.New(fault.RedriveRefused, "letter %d came from %s: %s", l.ID, l.Subject, why)
}

// withType gives a body the type it has by its subject when it says none.
func withType(body json.RawMessage, typ string) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields["type"] != nil {
		return body
	}
	fields["type"] = json.RawMessage(strconv.Quote(typ))
	out, err := json.Marshal(fields)
	if err != nil {
		return body
	}
	return out
}
