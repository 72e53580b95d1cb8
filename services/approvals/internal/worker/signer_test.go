package worker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// TestSigner_Hold: the first key is the mesh's; another one is refused with what to
// do, until it is told whose place it takes; then the first is the other one.
func TestSigner_Hold(t *testing.T) {
	t.Parallel()
	ctx, s := context.Background(), NewSigner(meshtest.Start(t).Conn)
	first, second, third := decision.NewKey(), decision.NewKey(), decision.NewKey()
	for i, c := range []struct {
		key      decision.Key
		replaces string
		current  decision.Key // after it
		refused  bool
	}{
		{first, "", first, false},
		{first, "", first, false},
		{second, "", first, true},
		{second, third.Public(), first, true},
		{second, first.Public(), second, false},
		{second, first.Public(), second, false}, // its next start
		{first, "", second, true},               // an old replica that starts again
		{third, first.Public(), second, true},
		{first, second.Public(), first, false}, // the way back
	} {
		err := s.Hold(ctx, c.key, c.replaces)
		if refused := fault.CodeOf(err) == fault.InvalidConfig; refused != c.refused || err != nil && !refused {
			t.Errorf("%d: %v, want refused %t", i, err, c.refused)
		}
		row, _, readErr := s.read(ctx)
		if readErr != nil || row.KeyID != c.current.ID() || row.Public != c.current.Public() {
			t.Errorf("%d: the mesh's key is %+v (%v), want %s", i, row, readErr, c.current.ID())
		}
		if !c.refused {
			continue
		}
		for _, want := range []string{c.current.ID(), c.key.ID(), c.key.Public(), "--replaces=" + c.current.Public()} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%d: %q does not say %s", i, err, want)
			}
		}
	}
}

// TestSigner_Hold_OneOfMany: of keys that start at once on a new mesh one is the
// mesh's, and all others hear of that one.
func TestSigner_Hold_OneOfMany(t *testing.T) {
	t.Parallel()
	const many = 8
	ctx, s := context.Background(), NewSigner(meshtest.Start(t).Conn)
	errs := make(chan error, many)
	start := make(chan struct{})
	for range many {
		go func() {
			<-start
			errs <- s.Hold(ctx, decision.NewKey(), "")
		}()
	}
	close(start)
	held := 0
	var refusals []error
	for range many {
		if err := <-errs; err == nil {
			held++
		} else {
			refusals = append(refusals, err)
		}
	}
	row, _, err := s.read(ctx)
	if err != nil || held != 1 {
		t.Fatalf("%d keys hold the mesh (%v), want 1", held, err)
	}
	for _, err := range refusals {
		if f := fault.From(err); f.Code != fault.InvalidConfig || f.Context["expected"] != row.KeyID {
			t.Errorf("%v %v, want the key %s", err, f.Context, row.KeyID)
		}
	}
}

// TestSigner_Load: a key file is made on a new mesh only.
func TestSigner_Load(t *testing.T) {
	t.Parallel()
	ctx, s := context.Background(), NewSigner(meshtest.Start(t).Conn)
	file := filepath.Join(t.TempDir(), "approvals.key")
	key, err := s.Load(ctx, file)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Hold(ctx, key, ""); err != nil {
		t.Fatal(err)
	}
	again, err := s.Load(ctx, file)
	if err != nil || again.ID() != key.ID() {
		t.Errorf("the file again: %s, %v, want %s", again.ID(), err, key.ID())
	}
	elsewhere := filepath.Join(t.TempDir(), "mistyped.key")
	_, err = s.Load(ctx, elsewhere)
	if fault.CodeOf(err) != fault.InvalidConfig || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), key.ID()) || !strings.Contains(err.Error(), elsewhere) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := os.Stat(elsewhere); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file was made: %v", err)
	}
	if _, err := s.bucket.Put(ctx, decision.SignerRow, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if err := s.Hold(ctx, key, ""); fault.CodeOf(err) != fault.InternalError || !strings.Contains(err.Error(), crumbs.BucketApprovals) {
		t.Errorf("a row that is none: %v", err)
	}
}
