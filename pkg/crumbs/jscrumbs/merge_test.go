package jscrumbs

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// script feeds a merge and notes what it passes on.
type script struct {
	*merge
	clock time.Time
	live  tide
	out   []string
	err   error
}

func newScript(after uint64, strict bool) *script {
	s := &script{clock: time.Unix(1_000_000, 0), live: tide{caught: true}}
	s.merge = newMerge("run_1", after, strict, &s.live)
	return s
}

func (s *script) crumbs(items ...Item) *script {
	for _, i := range items {
		if err := s.crumb(i, s.clock); err != nil {
			s.err = err
		}
		s.drain()
	}
	return s
}

func (s *script) deltas(items ...Item) *script {
	for _, i := range items {
		s.delta(i, s.clock)
		s.drain()
	}
	return s
}

// wait lets the time of the next wake come.
func (s *script) wait() *script {
	if w := s.wake(); !w.IsZero() {
		s.clock = w
	}
	s.drain()
	return s
}

func (s *script) drain() {
	for {
		i, ok := s.next(s.clock)
		if !ok {
			return
		}
		s.out = append(s.out, short(i))
	}
}

func short(i Item) string {
	switch {
	case i.Delta && i.call.tool != "":
		return fmt.Sprintf("%s:%d.%d", i.call.tool, i.Attempt, i.Index)
	case i.Delta:
		return fmt.Sprintf("m%d:%d", i.call.attempt, i.Index)
	case i.DeltasMissing > 0:
		return fmt.Sprintf("%d-%d", i.Seq, i.DeltasMissing)
	}
	return fmt.Sprint(i.Seq)
}

func plain(seq uint64) Item {
	return Item{Base: crumbs.Base{Type: crumbs.TypeToolCalled, Seq: seq}}
}

func terminal(seq uint64) Item {
	return Item{Base: crumbs.Base{Type: crumbs.TypeAgentError, Seq: seq}}
}

func text(afterSeq uint64, attempt, index int) Item {
	return Item{Base: crumbs.Base{Type: crumbs.TypeTextDelta, Seq: afterSeq}, Delta: true, Attempt: attempt, Index: index, call: call{step: 1, attempt: attempt}}
}

func stepEnd(seq uint64, attempt, deltas int) Item {
	return Item{Base: crumbs.Base{Type: crumbs.TypeStepEnd, Seq: seq}, call: call{step: 1, attempt: attempt}, deltas: deltas}
}

func partial(afterSeq uint64, tool crumbs.CallID, attempt, index int) Item {
	return Item{Base: crumbs.Base{Type: crumbs.TypeResultPartial, Seq: afterSeq}, Delta: true, Attempt: attempt, Index: index, call: call{tool: tool}}
}

// keptAs is a partial result as the crumb that keeps it.
func keptAs(seq uint64, tool crumbs.CallID, attempt, index int) Item {
	i := partial(seq, tool, attempt, index)
	i.Delta, i.kept = false, true
	return i
}

func result(seq uint64, tool crumbs.CallID, deltas int) Item {
	return Item{Base: crumbs.Base{Type: crumbs.TypeToolResulted, Seq: seq}, call: call{tool: tool}, deltas: deltas}
}

// resultOf names the attempt whose deltas it counts.
func resultOf(seq uint64, tool crumbs.CallID, attempt, deltas int) Item {
	i := result(seq, tool, deltas)
	i.closes = attempt
	return i
}

func TestMerge_Order(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		after uint64
		loose bool
		feed  func(*script)
		want  []string
	}{
		{name: "deltas come after their crumb", feed: func(s *script) {
			s.deltas(text(1, 1, 0), text(1, 1, 1)).crumbs(plain(1), stepEnd(2, 1, 2))
		}, want: []string{"1", "m1:0", "m1:1", "2"}},
		{name: "the closing crumb waits for the rest", feed: func(s *script) {
			s.crumbs(plain(1)).deltas(text(1, 1, 0)).crumbs(stepEnd(2, 1, 3), plain(3)).deltas(text(1, 1, 2), text(1, 1, 1))
		}, want: []string{"1", "m1:0", "m1:1", "m1:2", "2", "3"}},
		{name: "and says what did not come", feed: func(s *script) {
			s.crumbs(plain(1)).deltas(text(1, 1, 0)).crumbs(stepEnd(2, 1, 3), plain(3)).wait()
		}, want: []string{"1", "m1:0", "2-2", "3"}},
		{name: "a lost delta holds its successors only so long", feed: func(s *script) {
			s.crumbs(plain(1)).deltas(text(1, 1, 0), text(1, 1, 2), text(1, 1, 3)).wait().deltas(text(1, 1, 1), text(1, 1, 4)).crumbs(stepEnd(2, 1, 5)).wait()
		}, want: []string{"1", "m1:0", "m1:2", "m1:3", "m1:4", "2-1"}},
		{name: "the first deltas aged out", feed: func(s *script) {
			s.crumbs(plain(1)).deltas(text(1, 1, 7), text(1, 1, 8)).wait().crumbs(stepEnd(2, 1, 9)).wait()
		}, want: []string{"1", "m1:7", "m1:8", "2-7"}},
		{name: "late, doubled and foreign deltas are dropped", feed: func(s *script) {
			s.crumbs(plain(1)).deltas(text(1, 1, 0), text(1, 1, 0)).crumbs(stepEnd(2, 1, 2)).wait().deltas(text(1, 1, 1)).crumbs(plain(3))
		}, want: []string{"1", "m1:0", "2-1", "3"}},
		{name: "attempts of a model call", feed: func(s *script) {
			s.crumbs(plain(1)).deltas(text(1, 1, 0), text(2, 2, 0)).crumbs(stepEnd(2, 1, 1)).deltas(text(2, 2, 1)).crumbs(stepEnd(3, 2, 2))
		}, want: []string{"1", "m1:0", "2", "m2:0", "m2:1", "3"}},
		{name: "attempts of a tool call: the one that the crumb names counts", feed: func(s *script) {
			s.crumbs(plain(1)).deltas(partial(1, "a", 1, 0), partial(1, "a", 1, 1)).crumbs(resultOf(2, "a", 2, 2)).deltas(partial(1, "a", 2, 1), partial(1, "a", 2, 0))
		}, want: []string{"1", "a:1.0", "a:1.1", "a:2.0", "a:2.1", "2"}},
		{name: "and what did not come of that one is missing", feed: func(s *script) {
			s.crumbs(plain(1)).deltas(partial(1, "a", 1, 0), partial(1, "a", 1, 1)).crumbs(resultOf(2, "a", 2, 2)).wait()
		}, want: []string{"1", "a:1.0", "a:1.1", "2-2"}},
		{name: "attempts of a tool call: the last one counts if none is named", feed: func(s *script) {
			s.crumbs(plain(1)).deltas(partial(1, "a", 1, 0), partial(1, "a", 1, 2), partial(1, "a", 2, 0), partial(1, "a", 1, 1)).crumbs(result(2, "a", 2)).wait()
		}, want: []string{"1", "a:1.0", "a:1.2", "a:2.0", "2-1"}},
		{name: "kept partials that came live are not told again", feed: func(s *script) {
			s.crumbs(plain(1)).deltas(partial(1, "a", 1, 0), partial(1, "a", 1, 1)).crumbs(keptAs(2, "a", 1, 0), keptAs(3, "a", 1, 1), resultOf(4, "a", 1, 2), plain(5))
		}, want: []string{"1", "a:1.0", "a:1.1", "4", "5"}},
		{name: "kept partials stand for the live ones that did not come, or come too late", feed: func(s *script) {
			s.crumbs(plain(1)).deltas(partial(1, "a", 1, 0), partial(1, "a", 1, 2)).crumbs(keptAs(2, "a", 1, 0), keptAs(3, "a", 1, 1), keptAs(4, "a", 1, 2)).
				deltas(partial(1, "a", 1, 1), partial(1, "a", 1, 2)).crumbs(resultOf(5, "a", 1, 3))
		}, want: []string{"1", "a:1.0", "3", "a:1.2", "5"}},
		{name: "kept partials are what there is without live ones, in every attempt", feed: func(s *script) {
			s.crumbs(plain(1), keptAs(2, "a", 1, 0), plain(3), keptAs(4, "a", 2, 0), resultOf(5, "a", 2, 1))
		}, want: []string{"1", "2", "3", "4", "5"}},
		{name: "live ones after those that are kept are waited for", feed: func(s *script) {
			s.crumbs(plain(1), keptAs(2, "a", 1, 0), resultOf(3, "a", 1, 2)).deltas(partial(1, "a", 1, 1), partial(1, "a", 1, 0)).crumbs(plain(4))
		}, want: []string{"1", "2", "a:1.1", "3", "4"}},
		{name: "a kept partial before the cursor was seen", after: 2, feed: func(s *script) {
			s.crumbs(plain(1), keptAs(2, "a", 1, 0)).deltas(partial(1, "a", 1, 0), partial(1, "a", 1, 1)).crumbs(plain(3), resultOf(4, "a", 1, 2))
		}, want: []string{"a:1.1", "3", "4"}},
		{name: "parallel calls", feed: func(s *script) {
			s.crumbs(plain(1), plain(2)).deltas(partial(1, "a", 1, 0), partial(2, "b", 1, 0)).crumbs(result(3, "b", 1)).deltas(partial(1, "a", 1, 1)).crumbs(result(4, "a", 2))
		}, want: []string{"1", "2", "a:1.0", "b:1.0", "3", "a:1.1", "4"}},
		{name: "a terminal crumb comes after every delta that came", feed: func(s *script) {
			s.crumbs(plain(1)).deltas(partial(1, "a", 1, 1), text(1, 1, 1)).crumbs(terminal(2)).deltas(text(1, 1, 0))
		}, want: []string{"1", "a:1.1", "m1:1", "2"}},
		{name: "after a cursor", after: 2, feed: func(s *script) {
			s.deltas(text(1, 1, 0), partial(2, "a", 1, 0)).crumbs(plain(1), stepEnd(2, 1, 5), plain(3), result(4, "a", 1))
		}, want: []string{"a:1.0", "3", "4"}},
		{name: "a cursor at the end", after: 2, feed: func(s *script) { s.crumbs(plain(1), terminal(2)) }, want: nil},
		{name: "crumbs come again after a reconnect", feed: func(s *script) {
			s.crumbs(plain(1), plain(2), plain(1), plain(2), plain(3))
		}, want: []string{"1", "2", "3"}},
		{name: "from now on: the crumb before a delta was before", loose: true, feed: func(s *script) {
			s.deltas(partial(4, "a", 1, 1), partial(4, "a", 1, 0)).wait().crumbs(result(5, "a", 2))
		}, want: []string{"a:1.0", "a:1.1", "5"}},
		{name: "from now on: the crumb before a delta is late", loose: true, feed: func(s *script) {
			s.deltas(partial(4, "a", 1, 0)).crumbs(plain(4)).wait().crumbs(result(5, "a", 1))
		}, want: []string{"4", "a:1.0", "5"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(tt.after, !tt.loose)
			tt.feed(s)
			if diff := cmp.Diff(tt.want, s.out); diff != "" || s.err != nil {
				t.Errorf("%v\n%s", s.err, diff)
			}
			if !s.wake().IsZero() || s.waiting != 0 && !s.ended {
				t.Errorf("wakes at %v, %d deltas wait; want nothing left", s.wake(), s.waiting)
			}
		})
	}
}

// As long as stored deltas are being read the wait has not begun, and a closing
// crumb does not know which attempts are among them.
func TestMerge_WaitBeginsWhenStoredDeltasAreRead(t *testing.T) {
	t.Parallel()
	s := newScript(0, true)
	s.live.caught = false
	s.crumbs(plain(1), result(2, "a", 1), plain(3))
	for attempt := range 3 {
		s.clock = s.clock.Add(DeltaWait - time.Millisecond)
		s.live.moved = s.clock
		s.deltas(partial(1, "a", attempt, 0))
	}
	want := []string{"1", "a:0.0", "a:1.0", "a:2.0"}
	if diff := cmp.Diff(want, s.out); diff != "" {
		t.Error(diff)
	}
	s.live.caught = true
	s.drain()
	if diff := cmp.Diff(append(want, "2", "3"), s.out); diff != "" {
		t.Error(diff)
	}
}

// A stream of deltas that does not answer holds a crumb no longer than a lost one.
func TestMerge_WaitEndsWithoutAnyDelta(t *testing.T) {
	t.Parallel()
	s := newScript(0, true)
	s.live.caught = false
	s.crumbs(plain(1), result(2, "a", 1)).wait()
	if diff := cmp.Diff([]string{"1", "2-1"}, s.out); diff != "" {
		t.Error(diff)
	}
}

func TestMerge_HolesAreExpired(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		after uint64
		seqs  []uint64
		first any
	}{
		{"aged out before the cursor: fine", 4, []uint64{5, 6}, nil},
		{"aged out after the cursor", 2, []uint64{5}, uint64(5)},
		{"aged out while following", 0, []uint64{1, 2, 6}, uint64(6)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(tt.after, true)
			for _, seq := range tt.seqs {
				s.crumbs(plain(seq))
			}
			if tt.first == nil {
				if s.err != nil {
					t.Error(s.err)
				}
				return
			}
			var e *fault.Error
			if !errors.As(s.err, &e) || e.Code != fault.CrumbsExpired || e.Context["firstSeq"] != tt.first {
				t.Errorf("got %v, want CRUMBS_EXPIRED with firstSeq %v", s.err, tt.first)
			}
		})
	}
}

// However the two streams interleave, and whatever is lost, the order holds:
// crumbs 1 to n once, deltas of a call ascending, after their crumb and before
// the one that closes them, and each is passed on or counted as missing.
func TestMerge_AnyInterleaving(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var stored, live []Item
		seq := uint64(0)
		counts := map[call]int{}
		for n := rapid.IntRange(1, 4).Draw(t, "steps"); n > 0; n-- {
			seq++
			stored = append(stored, plain(seq))
			c := call{tool: crumbs.CallID(fmt.Sprint("c", seq))}
			counts[c] = rapid.IntRange(0, 4).Draw(t, "deltas")
			for index := range counts[c] {
				if !rapid.Bool().Draw(t, "lost") {
					live = append(live, partial(seq, c.tool, 1, index))
				}
			}
			seq++
			stored = append(stored, result(seq, c.tool, counts[c]))
		}
		if rapid.Bool().Draw(t, "shuffled") {
			live = rapid.Permutation(live).Draw(t, "live")
		}
		m := newMerge("run_1", 0, true, &tide{caught: rapid.Bool().Draw(t, "caught")})
		clock := time.Unix(1, 0)
		var out []Item
		drain := func() {
			for i, ok := m.next(clock); ok; i, ok = m.next(clock) {
				out = append(out, i)
			}
		}
		for len(stored)+len(live) > 0 {
			switch from := rapid.IntRange(0, 2).Draw(t, "from"); {
			case from == 0 && len(stored) > 0:
				if err := m.crumb(stored[0], clock); err != nil {
					t.Fatal(err)
				}
				stored = stored[1:]
			case from == 1 && len(live) > 0:
				m.delta(live[0], clock)
				live = live[1:]
			case from == 2:
				clock = clock.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "ms")) * time.Millisecond)
			}
			drain()
		}
		for w := m.wake(); !w.IsZero(); w = m.wake() {
			if w.Before(clock) {
				t.Fatalf("wakes at %v, before now", clock.Sub(w))
			}
			clock = w
			drain()
		}
		check(t, out, seq, counts)
	})
}

func check(t *rapid.T, out []Item, last uint64, counts map[call]int) {
	var crumbsSeen uint64
	passed := map[call][]int{}
	for _, i := range out {
		if i.Delta {
			if i.Seq > crumbsSeen {
				t.Fatalf("%s came before crumb %d", short(i), i.Seq)
			}
			passed[i.call] = append(passed[i.call], i.Index)
			continue
		}
		if crumbsSeen++; i.Seq != crumbsSeen {
			t.Fatalf("crumb %d came as number %d", i.Seq, crumbsSeen)
		}
		if i.call != (call{}) && len(passed[i.call])+i.DeltasMissing != counts[i.call] {
			t.Fatalf("crumb %d: %d deltas came and %d are missing of %d", i.Seq, len(passed[i.call]), i.DeltasMissing, counts[i.call])
		}
	}
	if crumbsSeen != last {
		t.Fatalf("%d crumbs came, want %d", crumbsSeen, last)
	}
	for c, indices := range passed {
		if !slices.IsSorted(indices) {
			t.Fatalf("deltas of %v came as %v", c, indices)
		}
	}
}
