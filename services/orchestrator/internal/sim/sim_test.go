package sim_test

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/sim"
)

var seeds = flag.Int("seeds", 5, "seeds of each profile of faults")

const (
	seedsMax = 80 // until a rule that is switched off is missed
	runs     = 5
	manyRuns = 25
)

func pinned(t *testing.T) core.Pinned {
	t.Helper()
	p, err := sim.Pinned()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// profiles are the faults that the protocol must survive, alone and together.
func profiles() map[string]sim.Faults {
	return map[string]sim.Faults{
		"none":         {},
		"crash":        {Crash: 0.02},
		"long outages": {Crash: 0.02, LongDown: 0.3},
		"all down":     {Crash: 0.004, AllDown: true},
		"down, crash":  {Crash: 0.05, AllDown: true},
		"down, cancel": {Cancel: 0.9, AllDown: true},
		"night":        {AllDown: true, Night: true},
		"night, loss":  {AllDown: true, Night: true, Loss: 0.03},
		"night, crash": {AllDown: true, Night: true, Crash: 0.03},
		"loss":         {Loss: 0.01},
		"late":         {Loss: 0.01, Late: 0.4},
		"pause":        {Pause: 0.5},
		"restart":      {Restart: true, Crash: 0.02},
		"cancel":       {Cancel: 0.5, Crash: 0.02},
		"cancel, late": {Cancel: 0.5, Loss: 0.01, Late: 0.4},
		"cancel, full": {Cancel: 0.5, Full: true, Crash: 0.01},
		"poison":       {Poison: true, Crash: 0.01},
		"dead group":   {Dead: true, Full: true},
		"everything":   {Crash: 0.01, LongDown: 0.1, Loss: 0.005, Late: 0.3, Pause: 0.1, Restart: true, Cancel: 0.2, Full: true},
	}
}

func TestProtocol_SurvivesFaults(t *testing.T) {
	t.Parallel()
	p := pinned(t)
	for name, faults := range profiles() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crumbs, troubles := 0, 0
			for seed := range uint64(*seeds) {
				r := sim.Run(p, sim.Config{Seed: seed, Runs: runs, Replicas: 2, Faults: faults, Rules: sim.AllRules()})
				for _, v := range r.Violations {
					t.Errorf("seed %d: %s", seed, v)
				}
				crumbs, troubles = crumbs+r.Crumbs, troubles+r.Troubles
			}
			if crumbs < *seeds*runs {
				t.Errorf("%d crumbs of %d runs: nothing happened", crumbs, *seeds*runs)
			}
			if faults != (sim.Faults{}) && troubles == 0 {
				t.Error("none of the faults happened")
			}
		})
	}
}

// Each rule of the protocol is needed: without it a violation is found that the
// same seed does not have with it.
func TestProtocol_NoRuleIsIdle(t *testing.T) {
	t.Parallel()
	p := pinned(t)
	rules := map[string]struct {
		off    func(*sim.Rules)
		faults sim.Faults
		runs   int
		want   []sim.Kind
	}{
		"help":         {func(r *sim.Rules) { r.Help = false }, sim.Faults{Crash: 0.02}, runs, []sim.Kind{sim.Hang, sim.CrumbOrder}},
		"fence":        {func(r *sim.Rules) { r.Fence = false }, sim.Faults{}, runs, []sim.Kind{sim.CrumbTwice}},
		"fresh read":   {func(r *sim.Rules) { r.FreshRead = false }, sim.Faults{}, runs, []sim.Kind{sim.Hang}},
		"inbox first":  {func(r *sim.Rules) { r.InboxFirst = false }, sim.Faults{AllDown: true, Night: true, Crash: 0.03}, runs, []sim.Kind{sim.FalseUnknown, sim.LostDecision, sim.UnknownOverOK}},
		"revoke":       {func(r *sim.Rules) { r.Revoke = false }, sim.Faults{Cancel: 0.5, Crash: 0.02}, runs, []sim.Kind{sim.Dishonest, sim.StartAfterCancel}},
		"timers":       {func(r *sim.Rules) { r.Timers = false }, sim.Faults{Dead: true}, runs, []sim.Kind{sim.Hang}},
		"model claim":  {func(r *sim.Rules) { r.ModelClaim = false }, sim.Faults{Loss: 0.01, Late: 0.4}, runs, []sim.Kind{sim.PaidTwice}},
		"nonce":        {func(r *sim.Rules) { r.Nonce = false }, sim.Faults{Loss: 0.01}, runs, []sim.Kind{sim.FalseUnknown}},
		"result once":  {func(r *sim.Rules) { r.ResultOnce = false }, sim.Faults{AllDown: true, Crash: 0.05}, manyRuns, []sim.Kind{sim.UnknownOverOK}},
		"holder lives": {func(r *sim.Rules) { r.HolderLives = false }, sim.Faults{Loss: 0.03}, runs, []sim.Kind{sim.FalseUnknown}},
		"tombstone":    {func(r *sim.Rules) { r.Tombstone = false }, sim.Faults{Cancel: 0.9}, runs, []sim.Kind{sim.LostCancel}},
		"long claims":  {func(r *sim.Rules) { r.LongClaims = false }, sim.Faults{Pause: 0.5}, runs, []sim.Kind{sim.OnceTwice}},
		"now":          {func(r *sim.Rules) { r.Now = false }, sim.Faults{AllDown: true, Night: true}, runs, []sim.Kind{sim.Neglected}},
	}
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := sim.Config{Runs: rule.runs, Replicas: 2, Faults: rule.faults}
			for cfg.Seed = range uint64(seedsMax) {
				cfg.Rules = sim.AllRules()
				rule.off(&cfg.Rules)
				without := sim.Run(p, cfg)
				cfg.Rules = sim.AllRules()
				if broken(without, rule.want) && !broken(sim.Run(p, cfg), rule.want) {
					return
				}
			}
			t.Errorf("%d seeds without the rule and none of %v: the rule is idle, or the checker blind", seedsMax, rule.want)
		})
	}
}

func broken(r sim.Report, kinds []sim.Kind) bool {
	return slices.ContainsFunc(r.Violations, func(v sim.Violation) bool { return slices.Contains(kinds, v.Kind) })
}

// A seed decides everything.
func TestRun_IsDeterministic(t *testing.T) {
	t.Parallel()
	p := pinned(t)
	cfg := sim.Config{Seed: 3, Runs: runs, Replicas: 2, Faults: profiles()["everything"], Rules: sim.AllRules(), Trace: true}
	one, two := sim.Run(p, cfg), sim.Run(p, cfg)
	if a, b := strings.Join(one.Trace, "\n"), strings.Join(two.Trace, "\n"); a != b || a == "" {
		t.Errorf("two runs of one seed differ: %d and %d bytes of trace", len(a), len(b))
	}
}
