package worker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// toolTimeout bounds one call: both tools touch one small file.
const toolTimeout = 30 * time.Second

// Folder says where the tools read and write. Neither leaves its folder,
// whatever a path says and wherever a symbolic link points.
type Folder struct {
	Documents string // read_document reads below it
	Published string // publish writes here
}

// Tools returns the tools over the current folder.
func Tools() []tool.Tool { return Folder{Documents: ".", Published: "."}.Tools() }

// Tools returns the tools over f.
func (f Folder) Tools() []tool.Tool {
	return []tool.Tool{
		tool.Define("read_document", "Read a document: its title and its text.", f.read,
			tool.Effect(crumbs.EffectPure), tool.Timeout(toolTimeout)),
		tool.Define("publish", "Publish the document under a title. This cannot be undone.", f.publish,
			tool.Timeout(toolTimeout)),
	}
}

// beneath opens a folder; names given to it cannot lead out of it.
func beneath(folder string) (*os.Root, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, unusable(folder, err)
	}
	return root, nil
}

// unusable says what the file system refused, without the worker's paths: the
// model reads it.
func unusable(name string, err error) error {
	reason := "cannot be used"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		reason = "does not exist"
	case errors.Is(err, fs.ErrPermission):
		reason = "may not be used by this worker"
	}
	return fault.Wrap(fault.ToolError, err, "%s %s", filepath.Base(name), reason)
}
