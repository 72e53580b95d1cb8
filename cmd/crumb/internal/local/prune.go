package local

import (
	"context"
	"encoding/json"
	"os"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
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
	bucket := m.conn.Bucket(crumbs.BucketTools)
	var gone []string
	if err := bucket.List(ctx, ">", func(r mesh.Record) bool {
		var a agent.Announcement
		if json.Unmarshal(r.Value, &a) == nil && strings.Contains(a.Handler, "/") && a.Key() == r.Key && !served[r.Key] && !foreign[a.Group] {
			gone = append(gone, r.Key)
		}
		return true
	}); err != nil {
		return err
	}
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
	err := m.conn.Bucket(crumbs.BucketWorkers).List(ctx, ">", func(r mesh.Record) bool {
		var w mesh.Presence
		if json.Unmarshal(r.Value, &w) == nil && (w.PID != os.Getpid() || w.Host != host) {
			foreign[w.Queue] = true
		}
		return true
	})
	return foreign, err
}
