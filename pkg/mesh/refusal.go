package mesh

import (
	"context"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// refusal is how a request hears that NATS refuses its subject: NATS tells the
// connection, not the request, which would wait for its time to be over.
type refusal struct {
	subject string
	cancel  context.CancelCauseFunc
}

// refusable returns a context that ends with PERMISSIONS_VIOLATION when NATS refuses
// this connection to publish to subject; done takes the watch off.
func (c *Conn) refusable(ctx context.Context, subject string) (watched context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	r := &refusal{subject, cancel}
	c.refusals.Store(r, true)
	return ctx, func() { c.refusals.Delete(r); cancel(nil) }
}

// refuse ends the requests that a violation is about.
func (c *Conn) refuse(violation string) {
	c.refusals.Range(func(key, _ any) bool {
		if r := key.(*refusal); strings.Contains(violation, `"`+r.subject+`"`) {
			r.cancel(fault.New(fault.PermissionsViolation, "NATS does not let this role ask %s; use the key of one that may (docs/security.md)", r.subject))
		}
		return true
	})
}
