package worker

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// PublishedFile is the file that publish writes.
const PublishedFile = "published.md"

const (
	draftFile = ".published.md.draft"
	fileMode  = 0o644
)

// Publication is what to publish.
type Publication struct {
	Title string `json:"title" jsonschema:"minLength=1,maxLength=200"`
}

// Published says where it is.
type Published struct {
	File string `json:"file"`
}

// publish writes the file beside and renames it: a reader sees the old one or
// the new one. The file names the call that wrote it.
func (f Folder) publish(ctx tool.Context, in Publication) (Published, error) {
	root, err := beneath(f.Published)
	if err != nil {
		return Published{}, err
	}
	defer func() { _ = root.Close() }() // the file was closed and synced before
	title := strings.Join(strings.Fields(in.Title), " ")
	text := fmt.Sprintf("# %s\n\nPublished by the call %s.\n", title, ctx.CallID)
	if err := write(root, text); err != nil {
		return Published{}, unusable(PublishedFile, err)
	}
	return Published{File: PublishedFile}, nil
}

func write(root *os.Root, text string) error {
	file, err := root.OpenFile(draftFile, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return root.Rename(draftFile, PublishedFile)
}
