package mesh

import (
	"context"
	"errors"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Need is a stream or bucket that a service works on. A role that may not look at
// streams (Conn.Restricted) finds out that it is there by reading a subject of it that
// nothing stands on: no message is an answer, nobody who answers is none.
type Need struct {
	Stream string
	// Filter is what of the stream the service's role may read (pkg/mesh/access); empty
	// when that role may look at streams.
	Filter string
	// Leader says that the role may read it through the stream's leader only.
	Leader bool
	// Live says that the service works without it, if not as well: DELTAS, which is in
	// memory, is gone after a restart of a mesh's only server. Its absence turns
	// readiness red and keeps no service from starting.
	Live bool
}

// NeedBucket is the need of a bucket of which the keys that match may be read.
func NeedBucket(bucket, keys string) Need {
	return Need{Stream: "KV_" + bucket, Filter: "$KV." + bucket + "." + keys}
}

// unset turns a filter into a subject that nobody writes to.
var unset = strings.NewReplacer("*", string(crumbs.NoRun), ">", string(crumbs.NoRun))

// there reports whether a stream is there. It fails with UNAVAILABLE when NATS does not
// answer and with PERMISSIONS_VIOLATION when it does not let this role ask.
func (c *Conn) there(ctx context.Context, n Need) (bool, error) {
	subject, op := unset.Replace(n.Filter), ""
	looks := !c.Restricted() || n.Filter == ""
	switch {
	case looks:
		op = "STREAM.INFO." + n.Stream
	case n.Leader:
		op = "STREAM.MSG.GET." + n.Stream
	default:
		op = "DIRECT.GET." + n.Stream + "." + subject
	}
	ctx, cancel := c.limited(ctx)
	defer cancel()
	ctx, done := c.refusable(ctx, c.api(op))
	defer done()
	var err error
	switch {
	case looks:
		_, err = c.JS.Stream(ctx, n.Stream)
	case n.Leader:
		_, err = c.Last(ctx, n.Stream, subject)
	default:
		_, err = c.LastDirect(ctx, n.Stream, subject)
	}
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), fault.CodeOf(err) == fault.TopologyMissing:
		return false, nil
	case fault.CodeOf(context.Cause(ctx)) == fault.PermissionsViolation:
		return false, c.denied(err, "name the settings of this service's role with --config DIR/ROLE.yaml")
	case fault.CodeOf(err) == fault.Unavailable:
		return false, err
	}
	return false, unavailable(err, "stream "+n.Stream)
}

// missing is TOPOLOGY_MISSING about a stream. Whoever sees none of what he needs is
// told that he may be looking at the wrong place.
func (c *Conn) missing(ctx context.Context, needs []Need, stream string) error {
	for _, n := range needs {
		if n.Stream == stream {
			continue
		}
		if there, err := c.there(ctx, n); err != nil || there {
			return missingStream(stream)
		}
	}
	where := "its account"
	if c.access.APIPrefix != "" {
		where = "its account under the prefix " + c.access.APIPrefix
	}
	return fault.New(fault.TopologyMissing, "NATS at %s answers, and this process sees nothing of a mesh in %s: not the stream %s nor any other; %s. A mesh with accounts is seen with the settings of a role only: --config DIR/ROLE.yaml, or --nkey, --inbox-prefix and --js-api-prefix (docs/security.md)",
		c.NATS.ConnectedUrlRedacted(), where, stream, repairAll)
}
