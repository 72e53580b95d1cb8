package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// Sizes of a whole campaign.
const (
	processesRuns   = 1000
	processesLength = 110 * time.Second
	clusterRuns     = 300
	clusterLength   = 100 * time.Second
)

// Scenarios.
const (
	scenarioProcesses = "processes"
	scenarioCluster   = "cluster"
)

// options of a campaign.
type options struct {
	scenario  string // "": both
	seed      uint64
	runs      int           // of each scenario; 0: its own
	length    time.Duration // of the load; 0: the scenario's own
	toxiproxy string        // program
	report    string        // file to write
	keep      bool
	out       io.Writer
}

func parse(args []string, out io.Writer) (options, error) {
	o := options{out: out}
	f := flag.NewFlagSet("chaos", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.scenario, "scenario", "", "processes or cluster; both when empty")
	f.Uint64Var(&o.seed, "seed", 0, "plans everything; 0: one of its own")
	f.IntVar(&o.runs, "runs", 0, "runs of each scenario; 0: its own number")
	f.DurationVar(&o.length, "length", 0, "of the load of each scenario; 0: its own")
	f.StringVar(&o.toxiproxy, "toxiproxy", os.Getenv("TOXIPROXY"), "toxiproxy-server program, for the cluster; `make chaos` installs one")
	f.StringVar(&o.report, "report", "", "write the report of the campaign to this file")
	f.BoolVar(&o.keep, "keep", false, "keep the folder of a campaign that went well")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	return o.complete()
}

func (o options) complete() (options, error) {
	if !slices.Contains([]string{"", scenarioProcesses, scenarioCluster}, o.scenario) {
		return o, fmt.Errorf("-scenario %s: expected %s or %s", o.scenario, scenarioProcesses, scenarioCluster)
	}
	if o.runs < 0 || o.length < 0 {
		return o, errors.New("-runs and -length: expected 0 or more")
	}
	if o.does(scenarioCluster) && o.toxiproxy == "" {
		return o, errors.New("-toxiproxy (TOXIPROXY): expected the program toxiproxy-server, which makes the way to the cluster long; `make chaos` installs it")
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano()) % 1e6 // short enough to be typed
	}
	return o, nil
}

func (o options) does(scenario string) bool { return o.scenario == "" || o.scenario == scenario }

func (o options) say(format string, args ...any) {
	_, _ = fmt.Fprintf(o.out, format+"\n", args...) // a log; nobody could be told
}
