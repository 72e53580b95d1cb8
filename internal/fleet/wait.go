package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// Waiting bounds. Virtual time costs nothing, so a bubble is given an hour.
const (
	pollMin         = 5 * time.Millisecond
	pollMax         = 200 * time.Millisecond
	patience        = 2 * time.Minute
	virtualPatience = time.Hour
	explainWait     = 10 * time.Second
)

// Until polls until a condition holds and fails the test when it never does.
func (f *Fleet) Until(what string, holds func() bool) {
	f.t.Helper()
	limit, slowest := patience, pollMax
	if f.Mesh.Virtual {
		limit, slowest = virtualPatience, time.Second
	}
	poll := pollMin
	for end := time.Now().Add(limit); time.Now().Before(end); poll = min(2*poll, slowest) {
		if holds() {
			return
		}
		<-time.After(poll)
	}
	f.t.Fatalf("waited %s for: %s\n%s", limit, what, f.waits())
}

// waits is what the runs that have not ended wait for, for a test that fails.
func (f *Fleet) waits() string {
	ctx, stop := context.WithTimeout(context.Background(), explainWait)
	defer stop()
	var open strings.Builder
	for _, status := range []string{"running", "suspended", "stopping"} {
		var list crumbs.RunListReply
		if err := f.Mesh.Conn.Request(ctx, crumbs.EndpointRunsList, crumbs.RunList{Status: status}, &list); err != nil {
			return err.Error()
		}
		for _, r := range list.Runs {
			var x json.RawMessage
			if err := f.Mesh.Conn.Request(ctx, crumbs.EndpointRunsExplain, crumbs.RunGet{RunID: r.RunID}, &x); err != nil {
				x = json.RawMessage(err.Error())
			}
			fmt.Fprintf(&open, "%s\n", x)
		}
	}
	return open.String()
}

// WaitEnd waits until a run's terminal crumb is stored and returns all of them.
func (f *Fleet) WaitEnd(run crumbs.RunID) []Stored {
	f.t.Helper()
	return f.WaitFor(run, func(c Stored) bool { return crumbs.Terminal(c.Base.Type) })
}

// WaitSuspended waits until a run waits for people only, or has ended.
func (f *Fleet) WaitSuspended(run crumbs.RunID) []Stored {
	f.t.Helper()
	return f.WaitFor(run, func(c Stored) bool { return c.Base.Suspended || crumbs.Terminal(c.Base.Type) })
}

// WaitType waits for a crumb of a type.
func (f *Fleet) WaitType(run crumbs.RunID, typ string) []Stored {
	f.t.Helper()
	return f.WaitFor(run, func(c Stored) bool { return c.Base.Type == typ })
}

// WaitFor waits until a crumb of a run fits and returns the crumbs so far.
func (f *Fleet) WaitFor(run crumbs.RunID, fits func(Stored) bool) []Stored {
	f.t.Helper()
	all, _ := f.WaitOr(nil, run, fits)
	return all
}

// WaitOr is WaitFor that also ends when signal is closed: then ok is false,
// whatever the crumbs are by then.
func (f *Fleet) WaitOr(signal <-chan struct{}, run crumbs.RunID, fits func(Stored) bool) (all []Stored, ok bool) {
	f.t.Helper()
	f.Until("a crumb of "+string(run), func() bool {
		select {
		case <-signal:
			return true
		default:
		}
		last, err := f.Mesh.Conn.Last(context.Background(), crumbs.StreamCrumbs, crumbs.RunCrumbsFilter(run))
		if err != nil || last == nil || len(all) > 0 && all[len(all)-1].Sequence == last.Sequence {
			return false
		}
		all = f.Crumbs(run)
		for _, c := range all {
			ok = ok || fits(c)
		}
		return ok
	})
	return all, ok
}

// WaitTrimmed waits until the record of an ended run has its final form, after
// which nothing of the run is still to be sent.
func (f *Fleet) WaitTrimmed(run crumbs.RunID) {
	f.t.Helper()
	f.Until("the final record of "+string(run), func() bool {
		r, err := f.Mesh.Conn.Bucket(crumbs.BucketRuns).Get(context.Background(), string(run))
		return err == nil && r.Header.Get("Nats-TTL") != ""
	})
}
