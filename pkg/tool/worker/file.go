package worker

import (
	"context"
	"io"
	"slices"
	"sync"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/secret"
)

// files is what one attempt of a call stores; it is a tool.Files.
type files struct {
	store  *mesh.Files
	run    crumbs.RunID
	masker func() *secret.Masker

	mu     sync.Mutex
	begun  int // Puts that count
	stored []crumbs.File
}

// Put stores a file of the call's run in the area of the worker's group. Its name
// goes on record and is masked, its content is not.
func (f *files) Put(ctx context.Context, name, mimeType string, r io.Reader) (crumbs.File, error) {
	if !f.begin() {
		return crumbs.File{}, fault.New(fault.PayloadTooLarge, "the call stores more than %d files: put them into one archive, or return references", crumbs.FilesMax).
			With("limit", crumbs.FilesMax)
	}
	file, err := f.store.Put(ctx, f.run, f.masker().Text(name), mimeType, r)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil:
		f.begun--
		return crumbs.File{}, err
	case slices.Contains(f.stored, file):
		f.begun--
	default:
		f.stored = append(f.stored, file)
	}
	return file, nil
}

// begin takes a place among the files of the call.
func (f *files) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun >= crumbs.FilesMax {
		return false
	}
	f.begun++
	return true
}

// Get reads a file of whatever run and writer.
func (f *files) Get(ctx context.Context, uri string) ([]byte, error) { return f.store.Get(ctx, uri) }

// list is what was stored, in that order.
func (f *files) list() []crumbs.File {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.stored)
}
