// Command bench measures what a run costs, beside the least that its messages
// cost on the same NATS. docs/performance.md explains the rows and keeps results.
//
//	go run ./bench              the usual rows, a few minutes
//	go run ./bench -rows scale -suspended 100000   a deployment that keeps so many waiting runs
//	go run ./bench -rows floor  the throughput rows only: hop floor, protocol floor, mesh
//
// One run is model → one tool → model: scripted model, Go tool, embedded server,
// replicas 1, files synced as nats-server does by default (every two minutes),
// everything in this process. The rows of a round follow one another in the same
// invocation, so that ratios hold on a machine that is also doing other things.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The groups of rows that -rows chooses from.
const (
	rowsFloor     = "floor"
	rowsLatency   = "latency"
	rowsSuspended = "suspended"
	rowsKill      = "kill"
	rowsDev       = "dev"
	rowsReplicas  = "replicas"
	rowsScale     = "scale"
)

// rowNames are all groups; scale takes long and runs only when it is asked for.
func rowNames() []string { return append(usualRows(), rowsScale) }

func usualRows() []string {
	return []string{rowsFloor, rowsLatency, rowsSuspended, rowsKill, rowsDev, rowsReplicas}
}

type options struct {
	rounds   int
	slice    time.Duration
	inFlight []int
	rows     []string
	warm     int // runs of each row before it is measured
	calls    int // of the latency rows
	runs     int // suspended ones
	crumb    string
	profile  string
	store    string
	json     bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if url, ok := os.LookupEnv(childServer); ok {
		exit(child(ctx, url))
	}
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	exit(bench(ctx, o))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.IntVar(&o.rounds, "rounds", 5, "paired rounds; medians are over them")
	f.DurationVar(&o.slice, "slice", 1200*time.Millisecond, "how long one row runs in a round")
	inFlight := f.String("in-flight", "1,16,128", "runs in flight, comma separated")
	rows := f.String("rows", strings.Join(usualRows(), ","), "which groups of rows of "+strings.Join(rowNames(), ", "))
	f.IntVar(&o.warm, "warm", 200, "runs of each row before it is measured")
	f.IntVar(&o.calls, "calls", 300, "calls of each latency row")
	f.IntVar(&o.runs, "suspended", 1000, "suspended runs")
	f.StringVar(&o.crumb, "crumb", "", "the crumb binary of the rows dev and scale; built when empty")
	f.StringVar(&o.profile, "profile", "", "write a CPU profile of the mesh's slices at 16 in flight")
	f.StringVar(&o.store, "store", "", "folder of the streams; a temporary one when empty")
	f.BoolVar(&o.json, "json", false, "print one JSON document instead of the table")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("expected flags only, got %q", f.Arg(0))
	}
	for _, s := range strings.Split(*inFlight, ",") {
		var n int
		if _, err := fmt.Sscanf(s, "%d", &n); err != nil || n < 1 {
			return o, fmt.Errorf("-in-flight: expected numbers of at least 1, got %q", s)
		}
		o.inFlight = append(o.inFlight, n)
	}
	o.rows = strings.Split(*rows, ",")
	for _, r := range o.rows {
		if !slices.Contains(rowNames(), r) {
			return o, fmt.Errorf("-rows: expected some of %s, got %q", strings.Join(rowNames(), ","), r)
		}
	}
	if o.rounds < 1 || o.slice <= 0 || o.warm < 1 || o.calls < 1 || o.runs < 1 {
		return o, errors.New("-rounds, -slice, -warm, -calls, -suspended: expected more than 0")
	}
	return o, nil
}

// bench runs the chosen rows and prints what they measured.
func bench(ctx context.Context, o options) error {
	dir := o.store
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "crumbmesh-bench-"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }() // a folder of the system's temporary ones
	}
	report := &Report{Machine: machine(), Rounds: o.rounds, SliceMs: o.slice.Milliseconds()}
	for _, group := range []struct {
		name string
		run  func(context.Context, options, string, *Report) error
	}{{rowsFloor, floors}, {rowsLatency, latencies}, {rowsSuspended, suspension}, {rowsKill, kills}, {rowsDev, dev}, {rowsReplicas, replicas}, {rowsScale, scale}} {
		if !slices.Contains(o.rows, group.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s …\n", group.name)
		if err := group.run(ctx, o, dir, report); err != nil {
			return fmt.Errorf("%s: %w", group.name, err)
		}
	}
	report.Machine.LoadAfter = loadAverage()
	if o.json {
		return json.NewEncoder(os.Stdout).Encode(report)
	}
	return report.Print(os.Stdout)
}
