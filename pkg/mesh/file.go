package mesh

import (
	"context"
	"io"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Files is one writer's files: blobs that are named by a URI and that everybody
// may read (ADR 0029). A file is stored once and never changed.
type Files struct {
	conn *Conn
	area crumbs.Area
}

// Files returns the files of an area (crumbs.AreaToolFile, crumbs.AreaModelFile);
// nothing is asked of NATS yet. Files of every area can be read from it.
func (c *Conn) Files(area crumbs.Area) *Files { return &Files{conn: c, area: area} }

// Put stores what r has for a run and returns what names it. The same content of
// the same run is one file, whatever it is called. The whole is in memory until it
// is stored. It fails with INVALID_NAME for a name or media type that is none,
// PAYLOAD_TOO_LARGE over crumbs.FileBytesMax, QUEUE_FULL, UNAVAILABLE, or the error
// of r.
func (f *Files) Put(ctx context.Context, run crumbs.RunID, name, mimeType string, r io.Reader) (crumbs.File, error) {
	if err := crumbs.CheckFile(name, mimeType); err != nil {
		return crumbs.File{}, err
	}
	data, err := io.ReadAll(io.LimitReader(r, crumbs.FileBytesMax+1))
	if err != nil {
		return crumbs.File{}, err
	}
	if len(data) > crumbs.FileBytesMax {
		return crumbs.File{}, fault.New(fault.PayloadTooLarge, "the file %q has more than %d bytes: store it elsewhere and return a reference", name, crumbs.FileBytesMax).
			With("limit", crumbs.FileBytesMax)
	}
	if err := f.conn.Blobs(f.area).Put(ctx, BlobName(run, data), data); err != nil {
		return crumbs.File{}, err
	}
	return crumbs.File{Kind: crumbs.KindFile, URI: crumbs.FileURI(f.area, run, digest(data)), MimeType: mimeType, Name: name}, nil
}

// Get is Conn.File.
func (f *Files) Get(ctx context.Context, uri string) ([]byte, error) { return f.conn.File(ctx, uri) }

// File reads the file of a URI, of whatever run and writer. It fails with
// FILE_NOT_FOUND when the URI is none or the file is gone, INVALID_MESSAGE when
// something else stands in its place, UNAVAILABLE.
func (c *Conn) File(ctx context.Context, uri string) ([]byte, error) {
	area, run, sum, err := crumbs.ReadFileURI(uri)
	if err != nil {
		return nil, err
	}
	data, err := c.Blobs(area).Get(ctx, string(run)+"/"+sum)
	if fault.CodeOf(err) == fault.RunNotFound {
		return nil, fault.New(fault.FileNotFound, "the file %s is gone, or never was: files are kept as long as blobs (`crumb init --keep-blobs`)", uri).With("uri", uri)
	}
	return data, err
}
