package mesh_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// Heads gives every record that is there, its latest headers, no values, over more
// than one pull; deleted records and other keys are not among them.
func TestBucket_Heads(t *testing.T) {
	t.Parallel()
	conn := meshtest.Start(t).Conn
	ctx, bucket := context.Background(), conn.Bucket(crumbs.BucketRuns)
	if err := bucket.Heads(ctx, ">", func(mesh.Record) bool { t.Error("an empty bucket has a record"); return true }); err != nil {
		t.Fatal(err)
	}
	const many = 10_100 // more than one pull takes
	for i := range many {
		w := mesh.Write{Key: fmt.Sprintf("a.%d", i), Value: []byte("value"), Header: map[string]string{"crumb-status": fmt.Sprint(i)}}
		if _, err := bucket.Set(ctx, w); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"b.1", "a.gone"} {
		if _, err := bucket.Put(ctx, key, []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	if err := bucket.Delete(ctx, "a.gone"); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	if err := bucket.Heads(ctx, "a.*", func(r mesh.Record) bool {
		if r.Key != "a."+r.Head("Crumb-Status") || len(r.Value) != 0 || seen[r.Key] {
			t.Errorf("%s: status %q, %d bytes, seen before: %v", r.Key, r.Head("Crumb-Status"), len(r.Value), seen[r.Key])
		}
		seen[r.Key] = true
		return true
	}); err != nil || len(seen) != many {
		t.Errorf("%d records, %v; want %d", len(seen), err, many)
	}
	visited := 0
	if err := bucket.Heads(ctx, "a.*", func(mesh.Record) bool { visited++; return visited < 3 }); err != nil || visited != 3 {
		t.Errorf("%d visits after the visitor had enough, %v", visited, err)
	}
}
