// Package revision reads the agent revisions that model calls name: a scripted
// provider plays its turns, and an agent's own instances stand in it.
package revision

import (
	"context"
	"encoding/json"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/lru"
)

const (
	definitionBytesMax = 32 << 20               // of the encoded revisions in the cache
	readRetry          = 250 * time.Millisecond // between two reads while NATS does not answer
)

// Reader reads the agent revisions of bucket `agents`. A revision never changes,
// so it may be kept.
type Reader struct {
	bucket *mesh.Bucket
	known  *lru.Cache[string, *agent.Definition]
}

// New returns a Reader; nothing is asked of NATS yet.
func New(conn *mesh.Conn) *Reader {
	return &Reader{bucket: conn.Bucket(crumbs.BucketAgents), known: lru.New[string, *agent.Definition](definitionBytesMax)}
}

// Definition returns a revision. While NATS does not answer it reads again until ctx
// ends: a script that failed for that would lose its turn. It fails with
// AGENT_NOT_FOUND, or INTERNAL_ERROR when what is stored does not decode.
func (d *Reader) Definition(ctx context.Context, id crumbs.AgentID, revision string) (*agent.Definition, error) {
	key := string(id) + "." + revision
	if def, ok := d.known.Get(key); ok {
		return def, nil
	}
	record, err := d.bucket.Get(ctx, key)
	for fault.CodeOf(err) == fault.Unavailable && pause(ctx, readRetry) {
		record, err = d.bucket.Get(ctx, key)
	}
	if err != nil {
		return nil, err
	}
	if !record.Exists() {
		return nil, fault.New(fault.AgentNotFound, "revision %s of agent %s is not stored; apply the agent again (`crumb agents apply`)", revision, id)
	}
	def := new(agent.Definition)
	if err := json.Unmarshal(record.Value, def); err != nil {
		return nil, fault.Wrap(fault.InternalError, err, "revision %s of agent %s does not decode; apply the agent again (`crumb agents apply`)", revision, id)
	}
	d.known.Put(key, def, len(record.Value))
	return def, nil
}

// pause reports whether ctx outlived the delay.
func pause(ctx context.Context, delay time.Duration) bool {
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
