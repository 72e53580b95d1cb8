package main

import (
	"context"
	"runtime"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

const (
	holdAtOnce = 64  // runs started together
	holdWarm   = 512 // until every loop keeps the goroutines that it keeps (pkg/mesh)
)

// How long the goroutines of work that is over may take to end.
const (
	settleTries = 50
	settlePause = 100 * time.Millisecond
)

// suspension measures what runs cost that wait for a person.
func suspension(ctx context.Context, o options, dir string, report *Report) error {
	l, err := newLive(ctx, dir, "suspended", parts{orchestrator: true})
	if err != nil {
		return err
	}
	defer l.stop()
	if err := l.apply(ctx); err != nil {
		return err
	}
	q, err := newQuestions(l)
	if err != nil {
		return err
	}
	if err := q.hold(ctx, holdWarm); err != nil {
		return err
	}
	goroutines := fewest(runtime.NumGoroutine())
	buckets := []string{"KV_" + crumbs.BucketRuns, "KV_" + crumbs.BucketApprovals, crumbs.StreamTimers, crumbs.StreamCrumbs}
	before := map[string]int64{}
	for _, b := range buckets {
		if before[b], err = l.bytesOf(ctx, b); err != nil {
			return err
		}
	}
	if err := q.hold(ctx, o.runs); err != nil {
		return err
	}
	report.Suspended.Runs = o.runs
	report.Suspended.GoroutinesBefore, report.Suspended.GoroutinesAfter = goroutines, fewest(goroutines)
	for _, b := range buckets {
		after, err := l.bytesOf(ctx, b)
		if err != nil {
			return err
		}
		report.Suspended.Bytes = append(report.Suspended.Bytes, Held{Stream: b, Bytes: float64(after-before[b]) / float64(o.runs)})
	}
	return nil
}

// hold starts n runs, a few at a time, and returns when all of them ask.
func (q *questions) hold(ctx context.Context, n int) error {
	for open := 0; open < n; {
		batch := min(holdAtOnce, n-open)
		for range batch {
			if _, err := q.ask(ctx); err != nil {
				return err
			}
		}
		for range batch {
			if _, err := q.next(ctx); err != nil {
				return err
			}
		}
		open += batch
	}
	return nil
}

// fewest is the smallest number of goroutines seen until it is down to enough or
// the time for that is over: those of the last messages need a moment to end.
func fewest(enough int) int {
	least := runtime.NumGoroutine()
	for range settleTries {
		if least <= enough {
			break
		}
		<-time.After(settlePause)
		least = min(least, runtime.NumGoroutine())
	}
	return least
}
