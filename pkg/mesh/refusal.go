package mesh

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go"

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

// hears fails with PERMISSIONS_VIOLATION when NATS does not let a process that has
// credentials hear the answers to its requests: before it asks for anything, since what
// it asks for would be done and its answer lost.
func (c *Conn) hears() error {
	if c.access.NKey == "" && c.access.Creds == "" {
		return nil
	}
	sub, err := c.NATS.SubscribeSync(c.NATS.NewInbox())
	if err == nil {
		err = c.NATS.FlushTimeout(connectTimeout) // a refusal comes before its answer
	}
	if err != nil {
		return unavailable(err, "the first request")
	}
	refused := c.NATS.LastError()
	if err := sub.Unsubscribe(); err != nil {
		return unavailable(err, "the first request")
	}
	if refused != nil && strings.Contains(strings.ToLower(refused.Error()), "permissions violation") {
		prefix := c.access.InboxPrefix
		if prefix == "" {
			prefix = nats.InboxPrefix[:len(nats.InboxPrefix)-1]
		}
		return fault.Wrap(fault.PermissionsViolation, refused, "NATS does not let this role hear answers under %s; name its prefix with --inbox-prefix (_INBOX.ROLE) and that of JetStream with --js-api-prefix, or both and the key with --config DIR/ROLE.yaml (docs/security.md)", prefix)
	}
	return nil
}

// Refused returns PERMISSIONS_VIOLATION instead of an UNAVAILABLE whose reason is that
// NATS refused this connection something: who asks is told nothing and waits in vain.
func (c *Conn) Refused(err error, who string) error {
	if fault.CodeOf(err) != fault.Unavailable || c.violations.Load() == 0 {
		return err
	}
	return c.denied(err, "this is for the role "+who+": --config DIR/"+who+".yaml")
}

// denied is PERMISSIONS_VIOLATION with what NATS said of it, and what to do.
func (c *Conn) denied(err error, advice string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	hint := ""
	if c.access.APIPrefix == "" && strings.Contains(c.violation, jetstreamAPI) {
		hint = "; in an account of its own JetStream is under another prefix: name it with --js-api-prefix"
	}
	return fault.Wrap(fault.PermissionsViolation, err, "NATS refused it: %s; %s%s (docs/security.md)", c.violation, advice, hint)
}

const jetstreamAPI = "$JS.API."
