package worker

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// readSegments puts the older messages, which stand in blobs, before those of
// the body. It fails with RUN_NOT_FOUND when one is gone, INVALID_MESSAGE when
// one is no list of messages, UNAVAILABLE.
func (w *Worker) readSegments(ctx context.Context, j *job) error {
	if len(j.call.Segments) == 0 {
		return nil
	}
	parts := make([][]crumbs.Message, 0, len(j.call.Segments)+1)
	for _, name := range j.call.Segments {
		messages, err := w.segment(ctx, name)
		if err != nil {
			return err
		}
		parts = append(parts, messages)
	}
	j.call.Messages, j.call.Segments = slices.Concat(append(parts, j.call.Messages)...), nil
	return nil
}

// segment reads one object; objects never change, so they may be kept.
func (w *Worker) segment(ctx context.Context, name string) ([]crumbs.Message, error) {
	if messages, ok := w.segments.Get(name); ok {
		return messages, nil
	}
	data, err := w.blobs.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	var messages []crumbs.Message
	if err := json.Unmarshal(data, &messages); err != nil {
		return nil, fault.Wrap(fault.InvalidMessage, err, "segment %s: expected a JSON list of messages, got %d bytes that are none", name, len(data))
	}
	w.segments.Put(name, messages, len(data))
	return messages, nil
}
