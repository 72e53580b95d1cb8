package client

import (
	"context"
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Answer is what a person says to a question. Make one with Approve, Reject or
// Reply.
type Answer struct {
	Outcome string           // crumbs.DecideApprove, DecideReject or DecideAnswer
	By      crumbs.Principal // the person; an answer without one is refused
	Reason  string

	// ArgsHash binds the answer to the arguments that the person was shown: that of
	// the HumanRequired. Empty binds it to those of the question as it is stored.
	ArgsHash string

	Args  any    // edited arguments of an approval; nil leaves them as they are
	Value any    // of a reply, written as JSON: nil is null, and false, 0 and "" are values
	Via   string // decision.ViaAPI when empty
}

// Approve lets the call of a question run as the person was shown it.
func Approve(q crumbs.HumanRequired, by crumbs.Principal) Answer {
	return Answer{Outcome: crumbs.DecideApprove, By: by, ArgsHash: q.ArgsHash}
}

// Reject says no to a question; the model sees the reason.
func Reject(q crumbs.HumanRequired, by crumbs.Principal, reason string) Answer {
	return Answer{Outcome: crumbs.DecideReject, By: by, ArgsHash: q.ArgsHash, Reason: reason}
}

// Reply gives the value a question asks for.
func Reply(q crumbs.HumanRequired, by crumbs.Principal, value any) Answer {
	return Answer{Outcome: crumbs.DecideAnswer, By: by, ArgsHash: q.ArgsHash, Value: value}
}

func (a Answer) wire(checkpoint crumbs.CheckpointID) (decision.Answer, error) {
	body := decision.Answer{CheckpointID: checkpoint, ArgsHash: a.ArgsHash, Outcome: a.Outcome, Reason: a.Reason, By: &a.By, Via: a.Via}
	if body.Via == "" {
		body.Via = decision.ViaAPI
	}
	if err := crumbs.CheckCallID(checkpoint); err != nil {
		return body, err
	}
	if a.Outcome != crumbs.DecideAnswer && a.Value != nil {
		return body, fault.New(fault.DecisionInvalid, "value: expected none with %q, it is for %q only", a.Outcome, crumbs.DecideAnswer)
	}
	var err error
	if body.Args, err = encode("the edited arguments", a.Args); err != nil {
		return body, err
	}
	if a.Outcome == crumbs.DecideAnswer {
		body.Response = json.RawMessage("null")
		if a.Value != nil {
			body.Response, err = encode("the value", a.Value)
		}
	}
	return body, err
}

// Resume answers a question, and returns when the answer is recorded: it cannot be
// lost then. The first answer wins; the same one again gets the same Receipt. The
// run goes on by itself: Wait after the Seq of the Outcome that asked.
//
// It fails with CHECKPOINT_NOT_FOUND when the question is not open, saying in the
// context by whom and when it was decided; DECISION_INVALID when the answer does
// not fit the question, which then stays open; INVALID_MESSAGE when the answer is
// none; or UNAVAILABLE.
func (c *Client) Resume(ctx context.Context, checkpoint crumbs.CheckpointID, a Answer) (decision.Receipt, error) {
	body, err := a.wire(checkpoint)
	if err != nil {
		return decision.Receipt{}, err
	}
	var receipt decision.Receipt
	err = c.request(ctx, crumbs.EndpointApprovalsDecide, body, &receipt)
	return receipt, err
}

// Approvals lists questions with what became of them, oldest first. Empty fields
// of the query choose everything.
func (c *Client) Approvals(ctx context.Context, query decision.Query) (decision.Page, error) {
	var page decision.Page
	err := c.request(ctx, crumbs.EndpointApprovalsList, query, &page)
	return page, err
}

// Approval returns one question with what became of it. It fails with
// CHECKPOINT_NOT_FOUND.
func (c *Client) Approval(ctx context.Context, checkpoint crumbs.CheckpointID) (decision.Approval, error) {
	var row decision.Approval
	if err := crumbs.CheckCallID(checkpoint); err != nil {
		return row, err
	}
	err := c.request(ctx, crumbs.EndpointApprovalsGet, decision.Selection{CheckpointID: checkpoint}, &row)
	return row, err
}
