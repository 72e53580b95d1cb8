package main

import (
	"context"
	"fmt"
)

// storages are the rows of the group replicas, in the order of the table.
func storages() []storage {
	return []storage{{nodes: 1}, {nodes: 1, always: true}, {nodes: 3}, {nodes: 3, always: true}}
}

// replicas measures the mesh on NATS that keeps its word in different ways,
// interleaved.
func replicas(ctx context.Context, o options, dir string, report *Report) error {
	rows := map[string]subject{}
	var names []string
	for _, s := range storages() {
		l, err := newLive(ctx, dir, s.String(), parts{orchestrator: true, storage: s})
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		defer l.stop()
		if err := l.apply(ctx); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		if err := warm(ctx, l, o.warm); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		rows[s.String()], names = l, append(names, s.String())
	}
	for _, n := range o.inFlight {
		t := Throughput{InFlight: n, Rows: map[string][]Slice{}}
		for round := range o.rounds {
			for i := range names {
				name := names[(i+round)%len(names)] // no row always comes after the same one
				measured, err := under(ctx, rows[name], n, o.slice)
				if err != nil {
					return fmt.Errorf("%s, %d in flight: %w", name, n, err)
				}
				t.Rows[name] = append(t.Rows[name], measured)
			}
		}
		report.Replicas = append(report.Replicas, t)
	}
	return nil
}
