package question

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Bounds of the texts of an answer, in bytes.
const (
	ReasonMax    = 4 << 10
	PrincipalMax = 512 // each of iss, sub and tenant
)

// Read reads the body of a decide request. It returns INVALID_MESSAGE when it is
// no Answer: not JSON, no principal, an unknown outcome or way, a text too long;
// and INVALID_NAME for what is no checkpoint id.
func Read(body json.RawMessage) (decision.Answer, error) {
	var a decision.Answer
	if err := json.Unmarshal(body, &a); err != nil {
		return a, fault.Wrap(fault.InvalidMessage, err, "expected a JSON object {checkpointId, outcome, by, via, argsHash?, args?, response?, reason?}: %v", err)
	}
	if err := crumbs.CheckCallID(a.CheckpointID); err != nil {
		return a, err
	}
	if err := oneOf("outcome", a.Outcome, crumbs.DecideApprove, crumbs.DecideReject, crumbs.DecideAnswer); err != nil {
		return a, err
	}
	if err := oneOf("via", a.Via, decision.ViaCLI, decision.ViaAPI, decision.ViaPage, decision.ViaLink, decision.ViaGrant, decision.ViaRule); err != nil {
		return a, err
	}
	if len(a.Reason) > ReasonMax {
		return a, fault.New(fault.InvalidMessage, "reason: expected at most %d bytes, got %d", ReasonMax, len(a.Reason))
	}
	return a, checkPrincipal(a.By)
}

func oneOf(field, got string, want ...string) error {
	if slices.Contains(want, got) {
		return nil
	}
	return fault.New(fault.InvalidMessage, "%s: expected one of %s, got %q", field, strings.Join(want, ", "), clip(got))
}

func checkPrincipal(by *crumbs.Principal) error {
	if by == nil || by.Issuer == "" || by.Subject == "" {
		return fault.New(fault.InvalidMessage, "by: expected the principal who answers, {iss, sub}: an answer without a person is none")
	}
	for _, text := range []string{by.Issuer, by.Subject, by.Tenant} {
		if len(text) > PrincipalMax {
			return fault.New(fault.InvalidMessage, "by: expected iss, sub and tenant of at most %d bytes, got %d", PrincipalMax, len(text))
		}
	}
	return nil
}

// Decide returns the decision, not yet signed, that answer a gives to question q
// at a time. It returns DECISION_INVALID, and the question stays open, when the
// kind is wrong, the hash is that of other arguments, or the edited arguments or
// the response do not fit their schema or have no canonical form.
func Decide(q crumbs.HumanRequired, a decision.Answer, at crumbs.Time) (crumbs.Decision, error) {
	d := crumbs.Decision{
		Type: crumbs.TypeDecision, RunID: q.RunID, CheckpointID: q.CheckpointID, ToolCallID: q.ToolCallID, ArgsHash: q.ArgsHash,
		Outcome: a.Outcome, Reason: a.Reason, By: *a.By, Via: a.Via, At: at,
	}
	if want := outcomes(q.Kind); !slices.Contains(want, a.Outcome) {
		return d, refuse(q, "wrong kind: a question of kind %s takes %s, got %s", q.Kind, strings.Join(want, " or "), a.Outcome)
	}
	if a.ArgsHash != "" && a.ArgsHash != q.ArgsHash {
		return d, refuse(q, "other arguments: the answer is for argsHash %s, the question has %s; read it again", clip(a.ArgsHash), q.ArgsHash)
	}
	var err error
	if d.Args, err = edited(q, a); err != nil {
		return d, err
	}
	d.Response, err = response(q, a)
	return d, err
}

// outcomes lists what may be said to a question. An escalation asks how to go
// on, so it takes a yes, a no or an instruction.
func outcomes(kind string) []string {
	switch kind {
	case crumbs.KindApproval:
		return []string{crumbs.DecideApprove, crumbs.DecideReject}
	case crumbs.KindInput:
		return []string{crumbs.DecideAnswer, crumbs.DecideReject}
	case crumbs.KindEscalation:
		return []string{crumbs.DecideApprove, crumbs.DecideReject, crumbs.DecideAnswer}
	default:
		return nil
	}
}

// edited returns the arguments that shall run instead, with their defaults; nil
// when they are those of the question.
func edited(q crumbs.HumanRequired, a decision.Answer) (json.RawMessage, error) {
	if a.Args == nil {
		return nil, nil
	}
	if a.Outcome != crumbs.DecideApprove || q.Kind != crumbs.KindApproval {
		return nil, refuse(q, "args: only the approval of a call may edit its arguments, this is %s of a question of kind %s", a.Outcome, q.Kind)
	}
	if text := bytes.TrimSpace(a.Args); len(text) == 0 || text[0] != '{' {
		return nil, refuse(q, "args: expected a JSON object")
	}
	schema, err := argument.Compile(q.Schema)
	if err != nil {
		return nil, refuse(q, "args cannot be edited: %s", fault.From(err).Message)
	}
	args, err := schema.Fill(a.Args)
	if err != nil {
		return nil, refuse(q, "args: %s", fault.From(err).Message)
	}
	if err := schema.Check(fault.DecisionInvalid, args); err != nil {
		return nil, err
	}
	hash, err := argument.Hash(args)
	if err != nil {
		return nil, refuse(q, "args: %s", fault.From(err).Message)
	}
	if hash == q.ArgsHash {
		return nil, nil
	}
	return args, nil
}

// response returns the value of an answer. Only its absence is none: false, 0,
// "" and null are values.
func response(q crumbs.HumanRequired, a decision.Answer) (json.RawMessage, error) {
	switch {
	case a.Outcome != crumbs.DecideAnswer && a.Response != nil:
		return nil, refuse(q, "response: expected none with %s, it is for answer only", a.Outcome)
	case a.Outcome != crumbs.DecideAnswer:
		return nil, nil
	case a.Response == nil:
		return nil, refuse(q, `response: an answer needs one; false, 0, "" and null are values, leaving it out is not`)
	}
	if _, err := argument.Canonical(a.Response); err != nil {
		return nil, refuse(q, "response: %s", fault.From(err).Message)
	}
	if len(q.AnswerSchema) == 0 {
		return a.Response, nil
	}
	schema, err := argument.Compile(q.AnswerSchema)
	if err != nil {
		return nil, refuse(q, "its answer cannot be checked: %s", fault.From(err).Message)
	}
	return a.Response, schema.Check(fault.DecisionInvalid, a.Response)
}

func refuse(q crumbs.HumanRequired, format string, args ...any) error {
	e := fault.New(fault.DecisionInvalid, format, args...)
	return e.With("checkpointId", q.CheckpointID).With("kind", q.Kind)
}

// Repeats reports whether d says what row records already, by the same person.
func Repeats(row decision.Approval, d crumbs.Decision) bool {
	r := row.Decision
	return r != nil && r.By == d.By && r.Outcome == d.Outcome && decision.Same(r.Args, d.Args) && decision.Same(r.Response, d.Response)
}

// Receipt is what the sender of the recorded decision gets.
func Receipt(row decision.Approval) decision.Receipt {
	return decision.Receipt{Applied: row.Status == decision.StatusApplied, Status: row.Status, Decision: *row.Decision}
}

// Taken returns CHECKPOINT_NOT_FOUND for a question that is not open: its
// context says what became of it (status, outcome), when (at) and by whom (by).
func Taken(row decision.Approval) error {
	outcome := row.Outcome
	if outcome == "" && row.Decision != nil {
		outcome = row.Decision.Outcome
	}
	e := fault.New(fault.CheckpointNotFound, "checkpoint %s is not open: it is %s (%s)", row.CheckpointID, row.Status, outcome).
		With("checkpointId", row.CheckpointID).With("status", row.Status).With("outcome", outcome)
	if row.By != nil {
		e.Message += " by " + row.By.Subject + " of " + row.By.Issuer
		e = e.With("by", *row.By)
	}
	if row.At != nil {
		e.Message += " at " + row.At.UTC().Format("2006-01-02T15:04:05.000Z")
		e = e.With("at", *row.At)
	}
	return e
}

// Unknown returns CHECKPOINT_NOT_FOUND for an id under which nothing was asked.
func Unknown(id crumbs.CheckpointID) error {
	return fault.New(fault.CheckpointNotFound, "checkpoint %s: no run asked a question of that id; `crumb approvals list` shows the open ones", id).With("checkpointId", id)
}

// clip bounds a foreign text in a message.
func clip(s string) string {
	if len(s) > crumbs.AttrMax {
		s = s[:crumbs.AttrMax] + "…"
	}
	return strings.ToValidUTF8(s, "�")
}
