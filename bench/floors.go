package main

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"
)

// Names of the throughput rows.
const (
	rowHop      = "hop floor"
	rowProtocol = "protocol floor"
	rowMesh     = "mesh"
)

// profileInFlight is where a profile is taken.
const profileInFlight = 16

// floors measures the throughput rows, interleaved.
func floors(ctx context.Context, o options, dir string, report *Report) error {
	l, err := newLive(ctx, dir, "mesh", parts{orchestrator: true})
	if err != nil {
		return err
	}
	defer l.stop()
	if err := l.apply(ctx); err != nil {
		return err
	}
	if err := warm(ctx, l, o.warm); err != nil {
		return err
	}
	said, err := l.record(ctx)
	if err != nil {
		return err
	}
	report.Run = said.said()
	rows := map[string]subject{rowMesh: l}
	for name, h := range map[string]handler{rowHop: hops(said), rowProtocol: newProtocol(said)} {
		r, err := newReplay(ctx, dir, name, said, h)
		if err != nil {
			return err
		}
		defer r.stop()
		if err := warm(ctx, r, o.warm); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		rows[name] = r
	}
	profile, stop, err := profiler(o.profile)
	if err != nil {
		return err
	}
	defer stop()
	for _, n := range o.inFlight {
		t := Throughput{InFlight: n, Rows: map[string][]Slice{}}
		for round := range o.rounds {
			order := []string{rowHop, rowProtocol, rowMesh}
			for i := range order {
				name := order[(i+round)%len(order)] // no row always comes after the same one
				measured, err := profile(name == rowMesh && n == profileInFlight, func() (Slice, error) { return under(ctx, rows[name], n, o.slice) })
				if err != nil {
					return fmt.Errorf("%s, %d in flight: %w", name, n, err)
				}
				t.Rows[name] = append(t.Rows[name], measured)
			}
		}
		report.Throughput = append(report.Throughput, t)
	}
	return nil
}

// warm lets a row carry runs out before anything is measured.
func warm(ctx context.Context, s subject, runs int) error {
	for range runs {
		if err := one(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// profiler returns a function that runs a slice, under the CPU profiler when asked
// to. A profile goes on over several slices only as one file each, so the last
// profiled slice is kept.
func profiler(file string) (func(bool, func() (Slice, error)) (Slice, error), func(), error) {
	plain := func(_ bool, f func() (Slice, error)) (Slice, error) { return f() }
	if file == "" {
		return plain, func() {}, nil
	}
	out, err := os.Create(file)
	if err != nil {
		return nil, nil, err
	}
	return func(wanted bool, f func() (Slice, error)) (Slice, error) {
		if !wanted {
			return f()
		}
		if err := out.Truncate(0); err != nil {
			return Slice{}, err
		}
		if _, err := out.Seek(0, 0); err != nil {
			return Slice{}, err
		}
		if err := pprof.StartCPUProfile(out); err != nil {
			return Slice{}, err
		}
		defer pprof.StopCPUProfile()
		return f()
	}, func() { _ = out.Close() }, nil
}
