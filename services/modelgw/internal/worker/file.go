package worker

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/turn"
)

// keepFiles stores what a model made and puts it into the message, before the calls
// it asks for. While NATS does not answer it tries until ctx ends: what is stored
// twice is one file. It fails with MODEL_ERROR when the model made too many, and
// with INVALID_NAME or PAYLOAD_TOO_LARGE when one is no file.
func (w *Worker) keepFiles(ctx context.Context, j *job, a *turn.Answer) error {
	if n := len(a.Files); n > crumbs.FilesMax {
		return fault.New(fault.ModelError, "provider %s made %d files in one turn > limit %d; ask the model for fewer", j.call.Model.Provider, n, crumbs.FilesMax)
	}
	if len(a.Files) == 0 {
		return nil
	}
	made := make([]crumbs.Part, 0, len(a.Files))
	for i, f := range a.Files {
		file, err := w.keepFile(ctx, j, cmp.Or(f.Name, fmt.Sprintf("file_%d", i+1)), f)
		if err != nil {
			return err
		}
		made = append(made, crumbs.Part{Type: crumbs.PartFile, File: &file})
	}
	at := slices.IndexFunc(a.Parts, func(p crumbs.Part) bool { return p.Type == crumbs.PartToolCall })
	if at < 0 {
		at = len(a.Parts)
	}
	a.Parts = slices.Insert(slices.Clone(a.Parts), at, made...)
	return nil
}

// keepFile stores one file. A text has none of this process's secrets in it, as
// everything else that a model says.
func (w *Worker) keepFile(ctx context.Context, j *job, name string, f turn.File) (crumbs.File, error) {
	masker := w.conn.Secrets.Masker()
	if utf8.Valid(f.Data) {
		f.Data = []byte(masker.Text(string(f.Data)))
	}
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return crumbs.File{}, context.Cause(ctx)
		case <-t.C:
		}
		file, err := w.conn.Files(crumbs.AreaModelFile(j.queue)).Put(ctx, j.call.RunID, masker.Text(name), f.MimeType, bytes.NewReader(f.Data))
		if err == nil || !transient(err) {
			return file, err
		}
		w.conn.Log.WarnContext(ctx, "file not stored, repeating", "run", j.call.RunID, "call", j.call.CallID, "error", err)
		t.Reset(storeRetry)
	}
}
