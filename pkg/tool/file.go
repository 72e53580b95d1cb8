package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"sync"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Files stores what a call makes and reads what others made. Whoever follows runs
// or works for them may read a file: nothing in it is masked.
type Files interface {
	// Put stores a file and returns what names it; its URI is what a tool returns.
	// The same content is one file of a run. mimeType may be empty. It fails with
	// INVALID_NAME, with PAYLOAD_TOO_LARGE for more than crumbs.FileBytesMax or for
	// the file after crumbs.FilesMax, with QUEUE_FULL, UNAVAILABLE or the error of r.
	Put(ctx context.Context, name, mimeType string, r io.Reader) (crumbs.File, error)

	// Get reads the file of a URI. It fails with FILE_NOT_FOUND for one that is none
	// or gone, and with UNAVAILABLE.
	Get(ctx context.Context, uri string) ([]byte, error)
}

// memory is the files of a call that runs without a mesh.
type memory struct {
	run crumbs.RunID

	mu     sync.Mutex
	stored map[string][]byte // by URI
}

// MemoryFiles keeps files in this process, for tests of tools. Tool.Run uses one
// when its Context has no Files.
func MemoryFiles(run crumbs.RunID) Files { return &memory{run: run, stored: map[string][]byte{}} }

// memoryGroup is the group in the URIs of MemoryFiles.
const memoryGroup = "memory"

func (m *memory) Put(_ context.Context, name, mimeType string, r io.Reader) (crumbs.File, error) {
	if err := crumbs.CheckFile(name, mimeType); err != nil {
		return crumbs.File{}, err
	}
	data, err := io.ReadAll(io.LimitReader(r, crumbs.FileBytesMax+1))
	if err != nil {
		return crumbs.File{}, err
	}
	if len(data) > crumbs.FileBytesMax {
		return crumbs.File{}, fault.New(fault.PayloadTooLarge, "the file %q has more than %d bytes: store it elsewhere and return a reference", name, crumbs.FileBytesMax)
	}
	run := m.run
	if run == "" {
		run = crumbs.NoRun
	}
	sum := sha256.Sum256(data)
	uri := crumbs.FileURI(crumbs.AreaToolFile(memoryGroup), run, hex.EncodeToString(sum[:]))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stored[uri] = data
	return crumbs.File{Kind: crumbs.KindFile, URI: uri, MimeType: mimeType, Name: name}, nil
}

func (m *memory) Get(_ context.Context, uri string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.stored[uri]
	if !ok {
		return nil, fault.New(fault.FileNotFound, "no file %s was stored", fmt.Sprintf("%.200q", uri))
	}
	return data, nil
}
