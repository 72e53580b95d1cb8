package client

import "context"

// File returns what a tool or a model stored under a URI (`files:…`), as a result, an
// Outcome or a crumb names it: at most crumbs.FileBytesMax bytes, and those that were
// stored, whoever hands the URI on. It fails with FILE_NOT_FOUND when the URI is none
// or the file is no longer kept, INVALID_MESSAGE when what is stored in its place is
// not what the URI names, UNAVAILABLE.
func (c *Client) File(ctx context.Context, uri string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	data, err := c.conn.File(ctx, uri)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return data, err
}
