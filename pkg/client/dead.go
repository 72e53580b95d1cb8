package client

import (
	"context"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// DeadLetters lists messages that were given up, the newest first.
func (c *Client) DeadLetters(ctx context.Context, list crumbs.DeadList) (crumbs.DeadPage, error) {
	var page crumbs.DeadPage
	err := c.request(ctx, crumbs.EndpointDeadList, list, &page)
	return page, err
}

// DeadLetter returns one of them, whole. It fails with DEAD_LETTER_NOT_FOUND.
func (c *Client) DeadLetter(ctx context.Context, id uint64) (crumbs.DeadLetter, error) {
	var letter crumbs.DeadLetter
	err := c.request(ctx, crumbs.EndpointDeadGet, crumbs.DeadGet{ID: id}, &letter)
	return letter, err
}

// EditDead gives a request or a control another body, with which it can be redriven.
// The letter stays as it is; the receipt names the edited one. It fails with
// DEAD_LETTER_NOT_FOUND, REDRIVE_REFUSED for what cannot be sent with another body,
// and INVALID_MESSAGE for a body that does not fit.
func (c *Client) EditDead(ctx context.Context, edit crumbs.DeadEdit) (crumbs.DeadReceipt, error) {
	var receipt crumbs.DeadReceipt
	err := c.request(ctx, crumbs.EndpointDeadEdit, edit, &receipt)
	return receipt, err
}

// Redrive has a message worked on again: a request is asked for again under its run
// id, a call gets its next attempt, a control goes back while its run lives. It
// may be repeated: the second receipt says Already.
//
// It fails with DEAD_LETTER_NOT_FOUND, REDRIVE_REFUSED saying why, RUN_NOT_FOUND,
// RUN_ENDED, RUN_CONFLICT, CALL_SETTLED, or CALL_STARTED for an attempt that had
// started, which Force gives up all the same.
func (c *Client) Redrive(ctx context.Context, redrive crumbs.DeadRedrive) (crumbs.DeadReceipt, error) {
	var receipt crumbs.DeadReceipt
	err := c.request(ctx, crumbs.EndpointDeadRedrive, redrive, &receipt)
	return receipt, err
}

// AnswerCall supplies the outcome of a call in flight in its worker's place. The
// first outcome counts: an answer after it fails with CALL_SETTLED and says who was
// first. Other failures are those of Redrive.
func (c *Client) AnswerCall(ctx context.Context, answer crumbs.DeadAnswer) (crumbs.DeadReceipt, error) {
	var receipt crumbs.DeadReceipt
	err := c.request(ctx, crumbs.EndpointDeadAnswer, answer, &receipt)
	return receipt, err
}

// CloseDead says that nothing more is to be done about a letter, and why: it is open
// no more. It may be repeated: the second receipt says Already. It fails with
// DEAD_LETTER_NOT_FOUND.
func (c *Client) CloseDead(ctx context.Context, closing crumbs.DeadClose) (crumbs.DeadReceipt, error) {
	var receipt crumbs.DeadReceipt
	err := c.request(ctx, crumbs.EndpointDeadClose, closing, &receipt)
	return receipt, err
}
