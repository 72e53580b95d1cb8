package question_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/approvals/internal/question"
)

var ada = crumbs.Principal{Issuer: "local", Subject: "ada"}

func asked(t testing.TB, kind string) crumbs.HumanRequired {
	t.Helper()
	args := json.RawMessage(`{"to":"ops","amount":10}`)
	hash, err := argument.Hash(args)
	if err != nil {
		t.Fatal(err)
	}
	return crumbs.HumanRequired{
		Base:         crumbs.Base{Type: crumbs.TypeHumanRequired, RunID: "run_1", AgentID: "payer", SessionID: "ses_1", Seq: 4, Timestamp: 1_772_600_767_008, Step: 1},
		CheckpointID: "run_1.1.0", Kind: kind, ToolCallID: "run_1.1.0", ToolName: "tool_pay", Args: args, ArgsHash: hash,
		Schema: json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"},"amount":{"type":"integer","maximum":100},"currency":{"type":"string","default":"EUR"}},"required":["to","amount"],"additionalProperties":false}`),
	}
}

func settled(outcome string) crumbs.HumanResumed {
	b := crumbs.HumanResumed{Base: crumbs.Base{Type: crumbs.TypeHumanResumed, RunID: "run_1", AgentID: "payer", SessionID: "ses_1", Seq: 5, Timestamp: 1_772_600_768_008},
		CheckpointID: "run_1.1.0", Kind: crumbs.KindApproval, Outcome: outcome}
	if outcome == crumbs.ResumedApproved {
		b.By = &ada
	}
	return b
}

func rank(s decision.Status) int {
	switch s {
	case "":
		return 0
	case decision.StatusOpen:
		return 1
	case decision.StatusDecided:
		return 2
	default:
		return 3
	}
}

// TestRow_AnyOrder: crumbs come late, twice and in any order; a row never goes
// back and ends the same.
func TestRow_AnyOrder(t *testing.T) {
	t.Parallel()
	q := asked(t, crumbs.KindApproval)
	made, err := question.Decide(q, decision.Answer{CheckpointID: q.CheckpointID, Outcome: crumbs.DecideApprove, By: &ada, Via: decision.ViaCLI}, crumbs.At(time.UnixMilli(1_772_600_767_500)))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		end := settled(rapid.SampledFrom([]string{crumbs.ResumedApproved, crumbs.ResumedExpired, crumbs.ResumedWithdrawn}).Draw(t, "outcome"))
		late := settled(crumbs.ResumedRejected)
		events := rapid.Permutation([]string{"asked", "asked", "decided", "resumed", "resumed"}).Draw(t, "order")
		var row decision.Approval
		decided, done := false, false
		for _, e := range events {
			before, changed := row, false
			switch e {
			case "asked":
				row, changed = question.Required(row, q)
			case "decided":
				row, changed = question.Decided(row, made)
				decided = changed
			case "resumed":
				b := end
				if done {
					b = late
				}
				row, changed = question.Resumed(row, b)
				done = true
			}
			if rank(row.Status) < rank(before.Status) || before.Status.Settled() && row.Status != before.Status {
				t.Fatalf("%s moved a row from %s to %s", e, before.Status, row.Status)
			}
			if diff := cmp.Diff(before, row); !changed && diff != "" {
				t.Fatalf("%s says that nothing changed: %s", e, diff)
			}
		}
		want, _ := question.Required(decision.Approval{}, q)
		if decided {
			want, _ = question.Decided(want, made)
		}
		want, _ = question.Resumed(want, end)
		if diff := cmp.Diff(want, row); diff != "" {
			t.Fatalf("after %v (-want +got): %s", events, diff)
		}
	})
}

func TestTTL(t *testing.T) {
	t.Parallel()
	q := asked(t, crumbs.KindApproval)
	now := time.UnixMilli(q.Timestamp)
	open, _ := question.Required(decision.Approval{}, q)
	expires := crumbs.At(now.Add(7 * 24 * time.Hour))
	q.ExpiresAt = &expires
	expiring, _ := question.Required(decision.Approval{}, q)
	done, _ := question.Resumed(expiring, settled(crumbs.ResumedExpired))
	for name, c := range map[string]struct {
		row  decision.Approval
		at   time.Time
		want time.Duration
	}{
		"no expiry": {open, now, 0}, "open": {expiring, now, 22 * 24 * time.Hour},
		"past its expiry": {expiring, now.Add(8 * 24 * time.Hour), question.RowTTL}, "settled": {done, now, question.RowTTL},
	} {
		if got := question.TTL(c.row, c.at); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	for name, c := range map[string]struct {
		kind         string
		answerSchema string
		answer       decision.Answer
		refused      string // part of the DECISION_INVALID
		args         string
		response     string
	}{
		"approve":                         {kind: crumbs.KindApproval, answer: decision.Answer{Outcome: crumbs.DecideApprove}},
		"reject":                          {kind: crumbs.KindApproval, answer: decision.Answer{Outcome: crumbs.DecideReject}},
		"edited, with defaults":           {kind: crumbs.KindApproval, answer: decision.Answer{Outcome: crumbs.DecideApprove, Args: raw(`{"to":"ops","amount":9}`)}, args: `{"to":"ops","amount":9,"currency":"EUR"}`},
		"edited outside the schema":       {kind: crumbs.KindApproval, answer: decision.Answer{Outcome: crumbs.DecideApprove, Args: raw(`{"to":"ops","amount":101}`)}, refused: "amount must be at most 100"},
		"edited to no object":             {kind: crumbs.KindApproval, answer: decision.Answer{Outcome: crumbs.DecideApprove, Args: raw(`[]`)}, refused: "JSON object"},
		"edited to null":                  {kind: crumbs.KindApproval, answer: decision.Answer{Outcome: crumbs.DecideApprove, Args: raw(`null`)}, refused: "JSON object"},
		"edited with a key twice":         {kind: crumbs.KindApproval, answer: decision.Answer{Outcome: crumbs.DecideApprove, Args: raw(`{"to":"ops","amount":1,"amount":2}`)}, refused: "amount"},
		"edit with a rejection":           {kind: crumbs.KindApproval, answer: decision.Answer{Outcome: crumbs.DecideReject, Args: raw(`{}`)}, refused: "edit"},
		"F030 answer to an approval":      {kind: crumbs.KindApproval, answer: decision.Answer{Outcome: crumbs.DecideAnswer, Response: raw(`true`)}, refused: "approve or reject"},
		"F030 approval of an input":       {kind: crumbs.KindInput, answer: decision.Answer{Outcome: crumbs.DecideApprove}, refused: "answer or reject"},
		"an input may be rejected":        {kind: crumbs.KindInput, answer: decision.Answer{Outcome: crumbs.DecideReject}},
		"answer without a response":       {kind: crumbs.KindInput, answer: decision.Answer{Outcome: crumbs.DecideAnswer}, refused: "needs one"},
		"approval with a response":        {kind: crumbs.KindApproval, answer: decision.Answer{Outcome: crumbs.DecideApprove, Response: raw(`true`)}, refused: "expected none"},
		"F028 false":                      {kind: crumbs.KindInput, answerSchema: `{"type":"boolean"}`, answer: decision.Answer{Outcome: crumbs.DecideAnswer, Response: raw(`false`)}, response: `false`},
		"F028 zero":                       {kind: crumbs.KindInput, answerSchema: `{"type":"integer"}`, answer: decision.Answer{Outcome: crumbs.DecideAnswer, Response: raw(`0`)}, response: `0`},
		"F028 empty":                      {kind: crumbs.KindInput, answerSchema: `{"type":"string"}`, answer: decision.Answer{Outcome: crumbs.DecideAnswer, Response: raw(`""`)}, response: `""`},
		"F028 null":                       {kind: crumbs.KindInput, answer: decision.Answer{Outcome: crumbs.DecideAnswer, Response: raw(`null`)}, response: `null`},
		"response outside its schema":     {kind: crumbs.KindInput, answerSchema: `{"type":"boolean"}`, answer: decision.Answer{Outcome: crumbs.DecideAnswer, Response: raw(`"yes"`)}, refused: "must be a boolean"},
		"response with an inexact number": {kind: crumbs.KindInput, answer: decision.Answer{Outcome: crumbs.DecideAnswer, Response: raw(`9007199254740993`)}, refused: "9007199254740993"},
		"escalation instructed":           {kind: crumbs.KindEscalation, answer: decision.Answer{Outcome: crumbs.DecideAnswer, Response: raw(`"skip it"`)}, response: `"skip it"`},
		"escalation approved":             {kind: crumbs.KindEscalation, answer: decision.Answer{Outcome: crumbs.DecideApprove}},
		"other arguments":                 {kind: crumbs.KindApproval, answer: decision.Answer{Outcome: crumbs.DecideApprove, ArgsHash: strings.Repeat("0", 64)}, refused: "argsHash"},
	} {
		q := asked(t, c.kind)
		if c.answerSchema != "" {
			q.AnswerSchema = raw(c.answerSchema)
		}
		c.answer.CheckpointID, c.answer.By, c.answer.Via = q.CheckpointID, &ada, decision.ViaCLI
		got, err := question.Decide(q, c.answer, crumbs.At(time.UnixMilli(q.Timestamp)))
		if c.refused != "" {
			if fault.CodeOf(err) != fault.DecisionInvalid || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v, want %s that says %q", name, err, fault.DecisionInvalid, c.refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.ArgsHash != q.ArgsHash || got.Outcome != c.answer.Outcome || got.By != ada {
			t.Errorf("%s: %+v", name, got)
		}
		if (c.args == "") != (got.Args == nil) || c.args != "" && !decision.Same(got.Args, raw(c.args)) {
			t.Errorf("%s: args %s, want %s", name, got.Args, c.args)
		}
		if string(got.Response) != c.response {
			t.Errorf("%s: response %s, want %s", name, got.Response, c.response)
		}
	}
}

// TestDecide_EditWithoutChange: what hashes like the question is an approval of
// it, not an edit.
func TestDecide_EditWithoutChange(t *testing.T) {
	t.Parallel()
	q := asked(t, crumbs.KindApproval)
	q.Schema = json.RawMessage(`{"type":"object"}`)
	a := decision.Answer{CheckpointID: q.CheckpointID, Outcome: crumbs.DecideApprove, Args: json.RawMessage(`{ "amount": 10.0, "to": "ops" }`), By: &ada, Via: decision.ViaPage}
	got, err := question.Decide(q, a, crumbs.At(time.UnixMilli(q.Timestamp)))
	if err != nil || got.Args != nil {
		t.Errorf("args %s, %v", got.Args, err)
	}
}

func TestRead_Refuses(t *testing.T) {
	t.Parallel()
	const good = `{"checkpointId":"run_1.1.0","outcome":"approve","via":"cli","by":{"iss":"local","sub":"ada"}}`
	if a, err := question.Read(json.RawMessage(good)); err != nil || a.By.Subject != "ada" {
		t.Fatalf("%+v, %v", a, err)
	}
	for name, c := range map[string]struct {
		body string
		code fault.Code
	}{
		"no object":       {`[]`, fault.InvalidMessage},
		"no principal":    {`{"checkpointId":"run_1.1.0","outcome":"approve","via":"cli"}`, fault.InvalidMessage},
		"null principal":  {strings.Replace(good, `{"iss":"local","sub":"ada"}`, `null`, 1), fault.InvalidMessage},
		"half principal":  {strings.Replace(good, `"sub":"ada"`, `"sub":""`, 1), fault.InvalidMessage},
		"long principal":  {strings.Replace(good, `ada`, strings.Repeat("a", question.PrincipalMax+1), 1), fault.InvalidMessage},
		"outcome":         {strings.Replace(good, `"approve"`, `"approved"`, 1), fault.InvalidMessage},
		"via":             {strings.Replace(good, `"cli"`, `"mail"`, 1), fault.InvalidMessage},
		"no checkpoint":   {`{"outcome":"approve","via":"cli","by":{"iss":"local","sub":"ada"}}`, fault.InvalidName},
		"wild checkpoint": {strings.Replace(good, `run_1.1.0`, `*.1.0`, 1), fault.InvalidName},
		"long reason":     {strings.Replace(good, `{"checkpointId"`, `{"reason":"`+strings.Repeat("x", question.ReasonMax+1)+`","checkpointId"`, 1), fault.InvalidMessage},
	} {
		if _, err := question.Read(json.RawMessage(c.body)); fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
}
