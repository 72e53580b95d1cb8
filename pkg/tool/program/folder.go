package program

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"mime"
	"os"
	"path/filepath"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// folder is where a program leaves the files that its call stores: CRUMB_FILES_DIR.
type folder struct{ path string }

// newFolder makes one. A worker that may write nowhere has none, and its programs
// find no CRUMB_FILES_DIR.
func newFolder(ctx tool.Context) *folder {
	path, err := os.MkdirTemp("", "crumb-files-")
	if err != nil {
		ctx.Logger.Debug("no folder for files", "error", err)
		return nil
	}
	return &folder{path}
}

// remove deletes the folder with all that is left in it.
func (f *folder) remove() {
	if f != nil {
		_ = os.RemoveAll(f.path)
	}
}

// store stores what is in the folder, by name. What is not a file (a link, a folder)
// is TOOL_ERROR: it would be silently missing, or lead elsewhere.
func (f *folder) store(ctx tool.Context) ([]crumbs.File, error) {
	if f == nil {
		return nil, nil
	}
	root, err := os.OpenRoot(f.path)
	if errors.Is(err, fs.ErrNotExist) { // the program took it away
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return nil, err
	}
	var stored []crumbs.File
	for _, e := range entries {
		if !e.Type().IsRegular() {
			return stored, fault.New(fault.ToolError, "%q in CRUMB_FILES_DIR is no file: write files into it directly, neither folders nor links", e.Name())
		}
		file, err := root.Open(e.Name())
		if err != nil {
			return stored, err
		}
		one, err := ctx.Files.Put(ctx, e.Name(), cmp.Or(mime.TypeByExtension(filepath.Ext(e.Name())), "application/octet-stream"), file)
		_ = file.Close()
		if err != nil {
			return stored, err
		}
		stored = append(stored, one)
	}
	return stored, nil
}

// result stores the files of a program that wrote nothing to standard output, and is
// nil when there is none.
func (f *folder) result(ctx tool.Context) (json.RawMessage, error) {
	files, err := f.store(ctx)
	if err != nil || len(files) == 0 {
		return nil, err
	}
	return json.Marshal(map[string]any{"files": files})
}

// variables tell the program where the folder is.
func (f *folder) variables() []string {
	if f == nil {
		return nil
	}
	return []string{"CRUMB_FILES_DIR=" + f.path}
}
