package main

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPercentile_IsAMeasuredValue(t *testing.T) {
	t.Parallel()
	var all []time.Duration
	for i := range 100 {
		all = append(all, time.Duration(100-i))
	}
	for p, want := range map[float64]time.Duration{0: 1, 50: 50, 99: 99, 99.5: 100, 100: 100} {
		if got := percentile(all, p); got != want {
			t.Errorf("p%g of 1…100 is %d, want %d", p, got, want)
		}
	}
	if got := percentile(nil, 50); got != 0 {
		t.Errorf("of nothing: %d", got)
	}
}

func TestThroughput_RatiosArePaired(t *testing.T) {
	t.Parallel()
	// A machine that is twice as slow in one round moves both rows and no ratio.
	th := Throughput{Rows: map[string][]Slice{rowHop: {{CPUMs: 1}, {CPUMs: 2}, {CPUMs: 1}}, rowMesh: {{CPUMs: 3}, {CPUMs: 6}, {CPUMs: 4}}}}
	if got := th.ratio(rowMesh, rowHop, cpuOf); got != 3 {
		t.Errorf("ratio %g, want 3", got)
	}
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median %g, want 2.5", got)
	}
}

func TestUsageOf_ReadsThisProcess(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		if _, _, err := usageOf(os.Getpid()); err == nil {
			t.Error("no /proc, no error")
		}
		return
	}
	_, resident, err := usageOf(os.Getpid())
	if err != nil || resident < 1<<20 {
		t.Errorf("%d bytes resident, %v", resident, err)
	}
}

func TestParse_RefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-rows", "fast"}, {"-in-flight", "none"}, {"-in-flight", "0"}, {"-rounds", "0"}, {"-suspended", "-1"}, {"all"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
	o, err := parse([]string{"-in-flight", "2,3", "-rows", "floor,dev"})
	if err != nil || !slices.Equal(o.inFlight, []int{2, 3}) || !slices.Equal(o.rows, []string{rowsFloor, rowsDev}) {
		t.Errorf("%+v, %v", o, err)
	}
}

// The floors write what the mesh writes, whatever that comes to be, and carry runs
// out to the end; the same rows then print.
func TestBench_FloorsSayWhatTheMeshSays(t *testing.T) {
	t.Parallel()
	ctx, report := context.Background(), &Report{Machine: machine(), Rounds: 1}
	o := options{rounds: 1, slice: time.Millisecond, inFlight: []int{2}, warm: 2}
	if err := floors(ctx, o, t.TempDir(), report); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, s := range report.Run {
		counts[s.Kind] = s.Count
	}
	for kind, want := range map[string]int{"request": 1, "record (compare-and-set)": 5, "crumb (fenced)": 6, "command": 3, "claim (create)": 3, "result": 3} {
		if counts[kind] != want {
			t.Errorf("%s: %d a run, want %d", kind, counts[kind], want)
		}
	}
	for row, slices := range report.Throughput[0].Rows {
		if len(slices) != 1 || slices[0].Runs < 1 || slices[0].CPUMs <= 0 {
			t.Errorf("%s: %+v", row, slices)
		}
	}
	var out bytes.Buffer
	if err := report.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{rowHop, rowProtocol, rowMesh} {
		if !strings.Contains(out.String(), row) {
			t.Errorf("no row %q in\n%s", row, &out)
		}
	}
}

// Each storage carries runs out and has its line in the table.
func TestBench_Replicas(t *testing.T) {
	t.Parallel()
	report := &Report{Machine: machine(), Rounds: 1}
	o := options{rounds: 1, slice: time.Millisecond, inFlight: []int{1}, warm: 1}
	if err := replicas(context.Background(), o, t.TempDir(), report); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := report.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, s := range storages() {
		if got := report.Replicas[0].Rows[s.String()]; len(got) != 1 || got[0].Runs < 1 {
			t.Errorf("%s: %+v", s, got)
		}
		if !strings.Contains(out.String(), s.String()) {
			t.Errorf("no row %q in\n%s", s, &out)
		}
	}
}
