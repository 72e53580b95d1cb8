package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/crumbmesh/crumbmesh/test/chaos/internal/check"
	"github.com/crumbmesh/crumbmesh/test/chaos/internal/nemesis"
)

//go:embed report.tmpl
var page string

// unknownShown is how many calls with an unknown outcome a summary lists.
const unknownShown = 20

// tally is how often something happened.
type tally struct {
	What string
	N    int
}

func tallies[K ~string](m map[K]int) (out []tally) {
	for _, k := range slices.SortedFunc(maps.Keys(m), func(a, b K) int { return cmp.Compare(a, b) }) {
		out = append(out, tally{string(k), m[k]})
	}
	return out
}

// Actions counts what was done.
func (o outcome) Actions() []tally {
	m := map[nemesis.Kind]int{}
	for _, d := range o.Done {
		m[d.Kind]++
	}
	return tallies(m)
}

// Outcomes counts how calls ended.
func (o outcome) Outcomes() []tally { return tallies(o.Result.Count.Outcomes) }

// Unknown counts why calls ended unknown.
func (o outcome) Unknown() []tally { return tallies(o.Result.Count.Unknown) }

// summary is the outcome in a few lines.
func (o outcome) summary() string {
	var b strings.Builder
	c := o.Result.Count
	fmt.Fprintf(&b, "  runs: %d asked, %d accepted, %d completed, %d cancelled, %d other; %d crumbs\n", c.Asked, c.Accepted, c.Completed, c.Cancelled, c.Other, c.Crumbs)
	fmt.Fprintf(&b, "  questions: %d approved, %d edited, %d rejected\n", c.Approved, c.Edited, c.Rejected)
	fmt.Fprintf(&b, "  calls: %v; %d executions, %d of them repeats; %d calls started more than once\n", c.Outcomes, c.Executions, c.Repeated, c.Restarted)
	fmt.Fprintf(&b, "  unknown: %v, %d of them had happened\n", c.Unknown, c.UnknownHappened)
	for _, u := range c.UnknownCalls[:min(len(c.UnknownCalls), unknownShown)] {
		fmt.Fprintf(&b, "    %s\n", u)
	}
	for _, a := range o.Actions() {
		fmt.Fprintf(&b, "  %4d × %s\n", a.N, a.What)
	}
	return b.String()
}

// report is what the page is made from.
type report struct {
	Seed     uint64
	Date     string
	Outcomes []outcome
	Total    check.Count
	Promises []check.Promise
}

// Broken is how often a promise was not kept in the whole campaign.
func (r report) Broken(rule check.Rule) (n int) {
	for _, o := range r.Outcomes {
		for _, v := range o.Result.Violations {
			if v.Rule == rule {
				n++
			}
		}
	}
	return n
}

func newReport(seed uint64, at time.Time, all []outcome) report {
	r := report{Seed: seed, Date: at.UTC().Format(time.DateOnly), Outcomes: all, Promises: check.Promises()}
	for _, o := range all {
		r.Total = r.Total.Add(o.Result.Count)
	}
	return r
}

func (r report) render() (string, error) {
	t, err := template.New("report").Parse(page)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, r)
	return b.String(), err
}

func writeReport(file string, seed uint64, all []outcome) error {
	text, err := newReport(seed, time.Now(), all).render()
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}
