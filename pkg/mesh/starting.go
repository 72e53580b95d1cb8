package mesh

import (
	"context"
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// ServiceStarting is the service of a presence that stands for a worker which does
// not serve yet: somebody builds or starts it. A run that needs a tool which such a
// worker may announce waits for it.
const ServiceStarting = "starting"

// AnnounceStarting says, until ctx ends, that a worker of a group is being started.
// It fails as Announce does.
func (c *Conn) AnnounceStarting(ctx context.Context, group string) (done <-chan struct{}, err error) {
	return c.Announce(ctx, Presence{Worker: NewWorkerID(group), Service: ServiceStarting, Queue: group})
}

// IsStarting reports whether somebody starts a worker of a group.
func (c *Conn) IsStarting(ctx context.Context, group string) (bool, error) {
	all, err := c.present(ctx, group)
	for _, p := range all {
		if p.Service == ServiceStarting {
			return true, err
		}
	}
	return false, err
}

// Serving are the ids of the workers of a group that serve, in no order.
func (c *Conn) Serving(ctx context.Context, group string) ([]string, error) {
	all, err := c.present(ctx, group)
	var out []string
	for _, p := range all {
		if p.Service != ServiceStarting {
			out = append(out, p.Worker)
		}
	}
	return out, err
}

// present are the rows of a group, whose keys only its own workers may write.
func (c *Conn) present(ctx context.Context, group string) (all []Presence, err error) {
	err = c.Bucket(crumbs.BucketWorkers).List(ctx, crumbs.ToolKeys(group)+">", func(r Record) bool {
		var p Presence
		if json.Unmarshal(r.Value, &p) == nil && p.Queue == group {
			all = append(all, p)
		}
		return true
	})
	return all, err
}
