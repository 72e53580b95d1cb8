package core

import (
	"encoding/json"
	"slices"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// Pieces of what grows with a run, its transcript and its text, are put aside as
// they come and merged by classes of size: three that are not larger than the new
// one's class become one, up to SegmentMax. So a record names about two pieces of
// each class and a few more for each megabyte, however small they came, and a byte
// is written once more for each class it rises through: what a run writes grows as
// what it says.
const (
	SegmentMax   = 1 << 20 // largest object that pieces are merged into, in bytes
	classBytes   = 2 << 10 // class 0 is what is smaller
	classFactor  = 4       // from class to class
	piecesAClass = 3       // that become one
)

// class is the class of a piece by its size.
func class(bytes int) (c int) {
	for top := classBytes; bytes >= top && top <= SegmentMax; top *= classFactor {
		c++
	}
	return c
}

// mergeable counts the pieces at the end that a new one of n bytes takes up.
func mergeable(sizes []int, n int) (pieces int) {
	for {
		alike, sum, level := 0, n, class(n)
		for i := len(sizes) - 1 - pieces; i >= 0 && class(sizes[i]) <= level; i-- {
			sum += sizes[i]
			alike++
		}
		if alike < piecesAClass-1 || sum > SegmentMax {
			return pieces
		}
		pieces, n = pieces+alike, sum
	}
}

// say appends to the transcript.
func (d *decision) say(m crumbs.Message) {
	b, err := json.Marshal(m)
	if err != nil {
		panic("core: a message does not encode: " + err.Error())
	}
	d.s.Transcript.Inline = append(d.s.Transcript.Inline, m)
	d.s.Transcript.Bytes += len(b)
}

// seal moves the inline transcript into an immutable segment when it outgrew
// what the record may hold.
func (d *decision) seal() {
	t := &d.s.Transcript
	limit := TranscriptMax
	if d.s.Status == Suspended {
		limit = SuspendedMax
		d.foldText(SuspendedTextMax)
		for i := range d.s.Calls {
			d.aside(&d.s.Calls[i].Args)
			d.aside(&d.s.Calls[i].Output)
		}
		d.aside(&d.s.Input)
		for i := range d.s.Notices {
			d.aside(&d.s.Notices[i].Input)
			d.aside(&d.s.Notices[i].Checkpoints)
		}
	}
	if t.Bytes <= limit || d.s.Status.Ended() {
		return
	}
	whole, err := json.Marshal(t.Inline)
	if err != nil {
		panic("core: a transcript does not encode: " + err.Error())
	}
	t.Sizes = aligned(t.Sizes, len(t.Segments))
	keep := len(t.Segments) - mergeable(t.Sizes, len(whole))
	whole = joinLists(append(d.pieces(t.Segments[keep:]), whole))
	t.Segments, t.Sizes = append(t.Segments[:keep], d.blob(whole)), append(t.Sizes[:keep], len(whole))
	t.Inline, t.Bytes = nil, 0
}

// aligned gives every segment a size. A release that does not know sizes drops
// them: segments of an unknown size stay as they are.
func aligned(sizes []int, segments int) []int {
	if len(sizes) > segments {
		sizes = nil
	}
	return append(slices.Repeat([]int{SegmentMax}, segments-len(sizes)), sizes...)
}

func (d *decision) pieces(names []string) (data []json.RawMessage) {
	values := make([]Value, len(names))
	for i, name := range names {
		values[i].Ref = name
	}
	d.need(values...)
	for _, v := range values {
		data = append(data, d.load(v))
	}
	return data
}

// joinLists is the JSON list of the elements of several that have some.
func joinLists(lists []json.RawMessage) json.RawMessage {
	whole := slices.Clone(lists[0])
	for _, l := range lists[1:] {
		whole = append(whole[:len(whole)-1], ',')
		whole = append(whole, l[1:]...)
	}
	return whole
}

// foldText makes one of the inline texts since the last one that is aside, and
// puts it aside once it is more than limit bytes.
func (d *decision) foldText(limit int) {
	texts := d.s.Text
	first, bytes := len(texts), 0
	for first > 0 && texts[first-1].Ref == "" {
		first--
		bytes += len(texts[first].Inline)
	}
	if bytes <= limit {
		if len(texts)-first > 1 {
			d.s.Text = append(texts[:first], Value{Inline: d.joined(texts[first:])})
		}
		return
	}
	sizes := make([]int, first)
	for i, v := range texts[:first] {
		sizes[i] = v.Bytes
	}
	first -= mergeable(sizes, bytes)
	whole := d.joined(texts[first:])
	d.s.Text = append(texts[:first], Value{Ref: d.blob(whole), Bytes: len(whole)})
}
