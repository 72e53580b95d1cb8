package local

import (
	"context"
	"encoding/json"
	"os"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// prune takes back the announcements of exec tools that the project has no more:
// they stay in the bucket when their worker goes, and nobody else would. Runs
// that are under way keep the tool set they began with.
//
// Only what this process announced, or a process before it on this store: tools
// of folders (`<agent>/<name>`), in groups that no worker of another process
// serves. Go tools are their worker's.
func (m *Mesh) prune(ctx context.Context, p *agent.Project) error {
	served := map[string]bool{}
	for _, e := range p.ExecTools() {
		served[e.Announcement.Key()] = true
	}
	foreign, err := m.foreignGroups(ctx)
	if err != nil {
		return err
	}
	var gone []string
	err = m.each(ctx, crumbs.BucketTools, func(key string, value []byte) {
		var a agent.Announcement
		if json.Unmarshal(value, &a) == nil && strings.Contains(a.Handler, "/") && a.Key() == key && !served[key] && !foreign[a.Group] {
			gone = append(gone, key)
		}
	})
	if err != nil {
		return err
	}
	bucket := m.conn.Bucket(crumbs.BucketTools)
	for _, key := range gone {
		if err := bucket.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// foreignGroups are the groups that workers of other processes serve.
func (m *Mesh) foreignGroups(ctx context.Context) (map[string]bool, error) {
	host, _ := os.Hostname() // as the workers of this process have it
	foreign := map[string]bool{}
	err := m.each(ctx, crumbs.BucketWorkers, func(_ string, value []byte) {
		var w mesh.Presence
		if json.Unmarshal(value, &w) == nil && (w.PID != os.Getpid() || w.Host != host) {
			foreign[w.Queue] = true
		}
	})
	return foreign, err
}

// each visits the values of a bucket.
func (m *Mesh) each(ctx context.Context, bucket string, visit func(key string, value []byte)) error {
	kv, err := m.conn.JS.KeyValue(ctx, bucket)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "bucket %s: %v", bucket, err)
	}
	w, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "watch bucket %s: %v", bucket, err)
	}
	defer func() { _ = w.Stop() }() // only read
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-w.Updates():
			if !ok || e == nil { // nil: all that was there
				return nil
			}
			visit(e.Key(), e.Value())
		}
	}
}
