package jscrumbs

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// replicas are a stream whose readings each show what the one that answers has.
type replicas struct {
	readings [][]uint64 // numbers of crumbs, by reading; the last one is that of all after it
	leader   uint64     // number of the first crumb that the leader has
	mute     bool       // who reads may not ask the leader
	err      error

	from []uint64 // where readings began
}

const scripted crumbs.RunID = "run_1"

func (s *replicas) read(ctx context.Context, from uint64) chan arrival {
	numbers := s.readings[min(len(s.from), len(s.readings)-1)]
	s.from = append(s.from, from)
	out := make(chan arrival)
	go func() {
		for _, n := range numbers {
			kind := crumbs.TypeStepEnd
			if n == 7 {
				kind = crumbs.TypeRunEnded
			}
			item := Item{Base: crumbs.Base{RunID: scripted, Type: kind, Seq: n}}
			if !send(ctx, out, arrival{item: item, run: scripted, at: 10 * n}) {
				return
			}
		}
	}()
	return out
}

func (s *replicas) first(context.Context, crumbs.RunID, uint64) (uint64, bool, error) {
	return s.leader, !s.mute, s.err
}

// A replica that lacks crumbs which the leader has is no reason to say that they
// are gone: they are read again, from the crumb after the last that was taken.
func TestFollow_F127_AReplicaThatIsBehind(t *testing.T) {
	t.Parallel()
	whole := []uint64{1, 2, 3, 4, 5, 6, 7}
	again := func(from uint64) (out []uint64) { return slices.Repeat([]uint64{from}, gapTries-1) }
	for _, c := range []struct {
		name   string
		log    replicas
		after  uint64
		code   fault.Code
		got    []uint64
		starts []uint64
	}{
		{"it catches up", replicas{readings: [][]uint64{{7}, {7}, whole}, leader: 1}, 0, "", whole, []uint64{0, 1, 1}},
		{"in the middle", replicas{readings: [][]uint64{{1, 2, 7}, {3, 4, 5, 6, 7}}, leader: 3}, 0, "", whole, []uint64{0, 21}},
		{"after a cursor", replicas{readings: [][]uint64{{7}, whole}, leader: 1}, 3, "", whole[3:], []uint64{0, 1}},
		{"never", replicas{readings: [][]uint64{{7}}, leader: 1}, 0, fault.Unavailable, nil, append([]uint64{0}, again(1)...)},
		{"the leader lacks them too", replicas{readings: [][]uint64{{5, 6, 7}}, leader: 5}, 0, fault.CrumbsExpired, nil, []uint64{0}},
		{"the leader lacks them in the middle", replicas{readings: [][]uint64{{1, 2, 7}}, leader: 7}, 0, fault.CrumbsExpired, []uint64{1, 2}, []uint64{0}},
		{"the leader does not answer", replicas{readings: [][]uint64{{7}}, err: fault.New(fault.Unavailable, "no answer")}, 0, fault.Unavailable, nil, append([]uint64{0}, again(1)...)},
		{"the leader may not be asked, and it catches up", replicas{readings: [][]uint64{{7}, whole}, mute: true}, 0, "", whole, []uint64{0, 1}},
		{"the leader may not be asked", replicas{readings: [][]uint64{{7}}, mute: true}, 0, fault.CrumbsExpired, nil, append([]uint64{0}, again(1)...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var got []uint64
				f := &follower{cfg: FollowConfig{Run: scripted, After: c.after}, runs: map[crumbs.RunID]*merge{}, log: &c.log,
					live: tide{caught: true}, yield: func(i Item, _ error) bool { got = append(got, i.Seq); return true }}
				f.begin(ctx, 0)
				if err := f.run(ctx); fault.CodeOf(err) != c.code {
					t.Errorf("ended with %v, want %q", err, c.code)
				}
				if !slices.Equal(got, c.got) || !slices.Equal(c.log.from, c.starts) {
					t.Errorf("got %v in readings from %v, want %v from %v", got, c.log.from, c.got, c.starts)
				}
			})
		})
	}
}

func TestFollow_EndsWhileItWaitsForAReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), gapWait/2)
		defer stop()
		f := &follower{cfg: FollowConfig{Run: scripted}, runs: map[crumbs.RunID]*merge{}, log: &replicas{readings: [][]uint64{{7}}, leader: 1}}
		f.begin(ctx, 0)
		if err := f.run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
