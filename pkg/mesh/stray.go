package mesh

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// strayPagesMax bounds the subjects that one look for strays reads: the server tells
// 100,000 at a time. What stands after them is found when those before are gone.
const strayPagesMax = 10

// Stray is where messages of a work queue stand that no consumer of it takes.
type Stray struct {
	Stream string
	// Filter is that of the queue which would take them; the subject itself where no
	// group or provider instance can have a queue of such.
	Filter   string
	Messages uint64
}

// IsQueue reports whether filter is that of a group's or a provider instance's queue.
func IsQueue(filter string) bool {
	queue := crumbs.Token(filter, 2)
	if crumbs.CheckName("queue", queue) != nil {
		return false
	}
	return filter == crumbs.ToolCallFilter(queue) || filter == crumbs.ModelCallFilter(queue)
}

// Takes reports whether a message on subject is one of the queue.
func (q Queue) Takes(subject string) bool {
	filter, tokens := strings.Split(q.Filter, "."), strings.Split(subject, ".")
	for i, f := range filter {
		switch {
		case f == ">":
			return i < len(tokens)
		case i >= len(tokens), f != "*" && f != tokens[i]:
			return false
		}
	}
	return len(filter) == len(tokens)
}

// Strays lists where messages of a stream of calls stand that none of its queues
// takes, at most limit places, sorted. It reads subjects and no message. It fails with
// TOPOLOGY_MISSING and UNAVAILABLE.
func (c *Conn) Strays(ctx context.Context, stream string, queues []Queue, limit int) ([]Stray, error) {
	found := map[string]uint64{}
	for offset, page := 0, 0; page < strayPagesMax; page++ {
		subjects, total, err := c.subjects(ctx, stream, offset)
		if err != nil {
			return nil, err
		}
		for subject, n := range subjects {
			filter := strayFilter(subject)
			taken := func(q Queue) bool { return q.Filter == filter || !IsQueue(q.Filter) && q.Takes(subject) }
			if !slices.ContainsFunc(queues, taken) {
				found[filter] += n
			}
		}
		if offset += len(subjects); len(subjects) == 0 || offset >= total {
			break
		}
	}
	var out []Stray
	for _, filter := range sortedKeys(found) {
		if len(out) < limit {
			out = append(out, Stray{stream, filter, found[filter]})
		}
	}
	return out, nil
}

// strayFilter is the filter of the queue that would take what stands on a subject.
func strayFilter(subject string) string {
	head, _, _ := strings.Cut(subject, ".")
	filter, queue := "", crumbs.Token(subject, 2)
	if head == "tool" {
		filter = crumbs.ToolCallFilter(queue)
	} else {
		filter = crumbs.ModelCallFilter(queue)
	}
	if IsQueue(filter) && (Queue{Filter: filter}).Takes(subject) {
		return filter
	}
	return subject
}

// subjects is one page of the subjects that messages of a stream stand on.
func (c *Conn) subjects(ctx context.Context, stream string, offset int) (page map[string]uint64, total int, err error) {
	reply, err := c.ask(ctx, "STREAM.INFO."+stream, stream, struct {
		Filter string `json:"subjects_filter"`
		Offset int    `json:"offset,omitempty"`
	}{">", offset})
	if err != nil {
		return nil, 0, err
	}
	var answer struct {
		Error *struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
		Total int `json:"total"`
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return nil, 0, unavailable(err, "subjects of "+stream)
	}
	switch e := answer.Error; {
	case e != nil && e.Code == int(codeNoStream):
		return nil, 0, missingStream(stream)
	case e != nil:
		return nil, 0, fault.New(fault.Unavailable, "subjects of %s: NATS refused: %s (code %d)", stream, e.Description, e.Code)
	}
	return answer.State.Subjects, answer.Total, nil
}
