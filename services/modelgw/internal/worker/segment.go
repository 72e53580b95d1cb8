package worker

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/prompt"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/turn"
)

// segment is an older part of a transcript, which never changes: as it was written,
// and as a model is shown it.
type segment struct {
	messages []crumbs.Message
	shown    prompt.Passage
}

// assemble puts the older messages, which stand in blobs, before those of the body,
// and makes the prompt of all. It fails with RUN_NOT_FOUND when a segment is gone,
// INVALID_MESSAGE when one is no list of messages, UNAVAILABLE.
func (w *Worker) assemble(ctx context.Context, j *job) error {
	var older []prompt.Passage
	var parts [][]crumbs.Message
	for _, name := range j.call.Segments {
		s, err := w.segment(ctx, name)
		if err != nil {
			return err
		}
		older, parts = append(older, s.shown), append(parts, s.messages)
	}
	if turn.Structured(j.call) {
		j.call.Tools, j.call.ToolChoice = nil, nil
	}
	j.prompt = prompt.Of(j.call, older...)
	if len(parts) > 0 {
		j.call.Messages, j.call.Segments = slices.Concat(append(parts, j.call.Messages)...), nil
	}
	return nil
}

// segment reads one object; objects never change, so they may be kept.
func (w *Worker) segment(ctx context.Context, name string) (segment, error) {
	if s, ok := w.segments.Get(name); ok {
		return s, nil
	}
	data, err := w.blobs.Get(ctx, name)
	if err != nil {
		return segment{}, err
	}
	var s segment
	if err := json.Unmarshal(data, &s.messages); err != nil {
		return segment{}, fault.Wrap(fault.InvalidMessage, err, "segment %s: expected a JSON list of messages, got %d bytes that are none", name, len(data))
	}
	s.shown = prompt.Show(s.messages)
	w.segments.Put(name, s, 2*len(data))
	return s, nil
}
