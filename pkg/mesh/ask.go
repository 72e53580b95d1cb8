package mesh

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Ask sends a request to a subject that is nobody's of the mesh and returns the
// answer as it came. The header is sent beside the trace context of ctx, which bounds
// the wait. It fails with INVALID_CONFIG for a subject of the mesh's own, with
// TOOL_ERROR when the answer is an error of a NATS micro service, with
// PERMISSIONS_VIOLATION when NATS does not let this role ask there, with
// PAYLOAD_TOO_LARGE, and with UNAVAILABLE when nobody listens or answers in time.
func (c *Conn) Ask(ctx context.Context, subject string, header map[string]string, body []byte) ([]byte, error) {
	if err := crumbs.CheckForeignSubject(subject); err != nil {
		return nil, err
	}
	msg := &nats.Msg{Subject: subject, Data: body, Header: nats.Header{}}
	for k, v := range header {
		msg.Header.Set(k, v)
	}
	InjectTrace(ctx, msg)
	asking, done := c.refusable(ctx, subject)
	defer done()
	reply, err := c.NATS.RequestMsgWithContext(asking, msg)
	switch {
	case err != nil && fault.CodeOf(context.Cause(asking)) == fault.PermissionsViolation:
		return nil, context.Cause(asking)
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fault.Wrap(fault.Unavailable, err, "nobody listens on %s: start what answers there", subject)
	case errors.Is(err, nats.ErrMaxPayload):
		return nil, fault.Wrap(fault.PayloadTooLarge, err, "%s: the request has %d bytes, NATS takes %d", subject, len(body), c.NATS.MaxPayload())
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, unavailable(err, subject)
	}
	if code := reply.Header.Get(errorCodeHeader); code != "" {
		return nil, fault.New(fault.ToolError, "%s answered with the error %s: %s", subject, code, fmt.Sprintf("%.1000s", reply.Header.Get(errorHeader))).With("serviceCode", code)
	}
	return reply.Data, nil
}
