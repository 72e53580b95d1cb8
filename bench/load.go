package main

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// subject is a row under load: something that carries runs out.
type subject interface {
	run(ctx context.Context, id crumbs.RunID) error
	bytes(ctx context.Context) (int64, error) // on disk now
	forget(ctx context.Context) error         // what it keeps in memory
	stop()
}

// Slice is what one row did in one round.
type Slice struct {
	Runs       int     `json:"runs"`
	RunsPerSec float64 `json:"runsPerSecond"`
	P50Ms      float64 `json:"p50Ms"` // request published → end seen
	P99Ms      float64 `json:"p99Ms"`
	CPUMs      float64 `json:"cpuMs"`  // of the process, a run
	Stored     float64 `json:"stored"` // bytes a run that stay on disk
}

// runMax bounds one run; more means that it hangs.
const runMax = time.Minute

// under keeps n runs in flight for the length of a slice, at least n in all, then
// lets them end.
func under(ctx context.Context, s subject, n int, length time.Duration) (Slice, error) {
	before, err := s.bytes(ctx)
	if err != nil {
		return Slice{}, err
	}
	if err := s.forget(ctx); err != nil {
		return Slice{}, err
	}
	runtime.GC() // a row does not pay for the garbage of the one before
	var (
		latencies = make([][]time.Duration, n)
		failed    atomic.Pointer[error]
		group     sync.WaitGroup
		started   = time.Now()
		used      = cpu()
	)
	for i := range n {
		group.Go(func() {
			for first := true; first || time.Since(started) < length && failed.Load() == nil; first = false {
				begun := time.Now()
				if err := one(ctx, s); err != nil {
					failed.Store(&err)
					return
				}
				latencies[i] = append(latencies[i], time.Since(begun))
			}
		})
	}
	group.Wait()
	took, spent := time.Since(started), cpu()-used
	if err := failed.Load(); err != nil {
		return Slice{}, *err
	}
	after, err := s.bytes(ctx)
	if err != nil {
		return Slice{}, err
	}
	if err := s.forget(ctx); err != nil {
		return Slice{}, err
	}
	var all []time.Duration
	for _, l := range latencies {
		all = append(all, l...)
	}
	runs := float64(len(all))
	return Slice{Runs: len(all), RunsPerSec: runs / took.Seconds(), P50Ms: milliseconds(percentile(all, 50)), P99Ms: milliseconds(percentile(all, 99)),
		CPUMs: milliseconds(spent) / runs, Stored: float64(after-before) / runs}, nil
}

func one(ctx context.Context, s subject) error {
	ctx, cancel := context.WithTimeout(ctx, runMax)
	defer cancel()
	return s.run(ctx, crumbs.NewRunID())
}
