//go:build e2e

package main

import (
	"os"
	"strconv"
	"testing"
)

// playAlone is one scenario as `make chaos` has it: SEED and RUNS change it. The
// scenarios have the machine for themselves, one after the other.
func playAlone(t *testing.T, scenario string) {
	t.Helper()
	o := options{scenario: scenario, toxiproxy: os.Getenv("TOXIPROXY"), out: os.Stdout}
	for name, to := range map[string]func(uint64){
		"CHAOS_SEED": func(n uint64) { o.seed = n },
		"CHAOS_RUNS": func(n uint64) { o.runs = int(n) },
	} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 32)
			if err != nil {
				t.Fatalf("%s: expected a number, got %q", name, text)
			}
			to(n)
		}
	}
	o, err := o.complete()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := campaign(t.Context(), o); err != nil {
		t.Error(err)
	}
}

func TestE2EChaos_Processes_CF_N19_F136_F144(t *testing.T) {
	playAlone(t, scenarioProcesses)
}

func TestE2EChaos_Cluster_CF_N19_F136_F144(t *testing.T) {
	playAlone(t, scenarioCluster)
}
