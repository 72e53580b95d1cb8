package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Report is everything one invocation measured.
type Report struct {
	Machine    Machine      `json:"machine"`
	Rounds     int          `json:"rounds"`
	SliceMs    int64        `json:"sliceMs"`
	Run        []Said       `json:"run,omitempty"` // what one run of the mesh writes
	Throughput []Throughput `json:"throughput,omitempty"`
	Replicas   []Throughput `json:"replicas,omitempty"` // rows by storage
	Latencies  []Latency    `json:"latencies,omitempty"`
	Suspended  Suspended    `json:"suspended,omitzero"`
	Dev        Dev          `json:"dev,omitzero"`
	Scale      Scale        `json:"scale,omitzero"`
}

// Throughput is the rows at one number of runs in flight, a slice a round.
type Throughput struct {
	InFlight int                `json:"inFlight"`
	Rows     map[string][]Slice `json:"rows"`
}

// Latency is the distribution of one row.
type Latency struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// Suspended is what waiting runs hold.
type Suspended struct {
	Runs             int    `json:"runs"`
	Bytes            []Held `json:"bytes"`
	GoroutinesBefore int    `json:"goroutinesBefore"`
	GoroutinesAfter  int    `json:"goroutinesAfter"`
}

// Held is the bytes a run holds in a stream.
type Held struct {
	Stream string  `json:"stream"`
	Bytes  float64 `json:"bytes"`
}

// Dev is an idle `crumb dev`.
type Dev struct {
	CorePercent float64 `json:"corePercent"`
	ResidentMB  float64 `json:"residentMB"`
}

func (r *Report) add(name, unit string, all []time.Duration) {
	r.Latencies = append(r.Latencies, latency(name, unit, all))
}

func latency(name, unit string, all []time.Duration) Latency {
	const maximum = 100
	return Latency{Name: name, Unit: unit, Count: len(all),
		P50: milliseconds(percentile(all, 50)), P99: milliseconds(percentile(all, 99)), Max: milliseconds(percentile(all, maximum))}
}

// of collects one figure of a row over the rounds.
func (t Throughput) of(row string, figure func(Slice) float64) []float64 {
	var out []float64
	for _, s := range t.Rows[row] {
		out = append(out, figure(s))
	}
	return out
}

// ratio is the median over the rounds of how a figure of a row compares with that
// of another in the same round.
func (t Throughput) ratio(row, to string, figure func(Slice) float64) float64 {
	a, b := t.of(row, figure), t.of(to, figure)
	var out []float64
	for i := range a {
		out = append(out, a[i]/b[i])
	}
	return median(out)
}

func cpuOf(s Slice) float64 { return s.CPUMs }

// Print writes the tables for people.
func (r *Report) Print(out io.Writer) error {
	text := &table{}
	m := r.Machine
	text.line("%s, %d CPUs, %s, nats-server %s; load %s before, %s after", m.OS, m.CPUs, m.Go, m.NATS, m.LoadBefore, m.LoadAfter)
	text.line("where nothing else is said: embedded server, R1, file streams with the default sync interval (2 min), all in one process; medians of %d paired rounds of %d ms", r.Rounds, r.SliceMs)
	r.printRun(text)
	r.printThroughput(text)
	r.printReplicas(text)
	r.printLatencies(text)
	r.printIdle(text)
	r.Scale.print(text)
	return text.write(out)
}

func (r *Report) printRun(text *table) {
	if len(r.Run) == 0 {
		return
	}
	text.line("\na run\tcount\tbytes of bodies")
	for _, s := range r.Run {
		text.line("%s\t%d\t%d", s.Kind, s.Count, s.Bytes)
	}
}

func (r *Report) printThroughput(text *table) {
	if len(r.Throughput) > 0 {
		text.line("\nin flight\trow\truns/s\tp50 ms\tp99 ms\tCPU ms a run\t× hop\t× protocol\tstored B a run")
	}
	for _, t := range r.Throughput {
		for _, row := range []string{rowHop, rowProtocol, rowMesh} {
			middle := func(f func(Slice) float64) float64 { return median(t.of(row, f)) }
			text.line("%d\t%s\t%.0f\t%.2f\t%.2f\t%.3f\t%.2f\t%.2f\t%.0f", t.InFlight, row,
				middle(func(s Slice) float64 { return s.RunsPerSec }), middle(func(s Slice) float64 { return s.P50Ms }), middle(func(s Slice) float64 { return s.P99Ms }),
				middle(cpuOf), t.ratio(row, rowHop, cpuOf), t.ratio(row, rowProtocol, cpuOf), middle(func(s Slice) float64 { return s.Stored }))
		}
	}
}

func (r *Report) printReplicas(text *table) {
	if len(r.Replicas) > 0 {
		text.line("\nin flight\tstorage\truns/s\tp50 ms\tp99 ms\tCPU ms a run\truns/s ÷ R1\tp50 × R1\tCPU × R1")
	}
	first := storages()[0].String()
	for _, t := range r.Replicas {
		for _, s := range storages() {
			row := s.String()
			middle := func(f func(Slice) float64) float64 { return median(t.of(row, f)) }
			rate, half := func(s Slice) float64 { return s.RunsPerSec }, func(s Slice) float64 { return s.P50Ms }
			text.line("%d\t%s\t%.0f\t%.2f\t%.2f\t%.3f\t%.2f\t%.2f\t%.2f", t.InFlight, row, middle(rate), middle(half),
				middle(func(s Slice) float64 { return s.P99Ms }), middle(cpuOf), t.ratio(row, first, rate), t.ratio(row, first, half), t.ratio(row, first, cpuOf))
		}
	}
}

func (r *Report) printLatencies(text *table) {
	if len(r.Latencies) > 0 {
		text.line("\nlatency\tcount\tp50\tp99\tmax")
	}
	for _, l := range r.Latencies {
		text.line("%s\t%d\t%.2f %s\t%.2f %s\t%.2f %s", l.Name, l.Count, l.P50, l.Unit, l.P99, l.Unit, l.Max, l.Unit)
	}
}

func (r *Report) printIdle(text *table) {
	if s := r.Suspended; s.Runs > 0 {
		text.line("\nsuspended runs\t%d", s.Runs)
		for _, h := range s.Bytes {
			text.line("  bytes a run in %s\t%.0f", h.Stream, h.Bytes)
		}
		text.line("  goroutines before, after\t%d, %d", s.GoroutinesBefore, s.GoroutinesAfter)
	}
	if r.Dev.ResidentMB > 0 {
		text.line("\nidle `crumb dev`\t%.1f MB resident\t%.2f %% of a core", r.Dev.ResidentMB, r.Dev.CorePercent)
	}
}

// table collects lines whose cells are separated by tabs.
type table struct{ text []byte }

func (t *table) line(format string, args ...any) {
	t.text = append(fmt.Appendf(t.text, format, args...), '\n')
}

// write aligns the cells.
func (t *table) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := w.Write(t.text); err != nil {
		return err
	}
	return w.Flush()
}
