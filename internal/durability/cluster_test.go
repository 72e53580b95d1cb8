package durability_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/internal/fleet"
	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs/jscrumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// The conflict codes of a fenced publish: of a stream that knows the last message,
// and of a replicated one while another write is in flight.
const (
	codeWrongLast     = 10071
	codeWrongInFlight = 10164
)

// Schedule 5. Three servers, the leader of CRUMBS steps down again and again, and
// two publishers deliver each Outbox: every run is stored 1…n, both conflict codes
// occur, and runs of the real services go through it.
func TestCluster_Schedule05_Stepdowns(t *testing.T) {
	t.Parallel()
	m := meshtest.StartCluster(t, topology(), meshtest.WithSettings(quick))
	s := scene{fleet.New(t, m), newSink(), t}
	s.Gateway()
	s.Tools(groupBench, s.counted()...)
	s.apply(clerk("clerk", turn("", call("put"), call("pay")), turn("Done.")))
	s.Orchestrator()
	s.Orchestrator()
	runs := scaled(t, 4)
	for i := range runs {
		s.Start("clerk", crumbs.RunID("run_"+itoa(i)))
	}
	codes := s.raceOutboxes(scaled(t, 2))
	for i := range runs {
		run := crumbs.RunID("run_" + itoa(i))
		s.WaitEnd(run)
		account(t, s.Fleet, run).completed("Done.").ended("1.0:ok 1.1:ok")
		s.want(t, run, "1.0:1 1.1:1")
	}
	if codes[codeWrongLast] == 0 || codes[codeWrongInFlight] == 0 {
		t.Errorf("conflicts by code: %v, want both %d and %d", codes, codeWrongLast, codeWrongInFlight)
	}
}

// A project applied to a cluster adds queues, whatever the orchestrator that makes
// them takes for the number of replicas.
func TestCluster_GroupIsAddedToAReplicatedQueue(t *testing.T) {
	t.Parallel()
	conn := meshtest.StartCluster(t, topology(), meshtest.WithSettings(quick)).Connect("orchestrator")
	conn.Settings.Replicas = 1
	added := mesh.Topology{Groups: map[string]int{"added": 3}}
	for range 2 { // made, then found
		if err := conn.EnsureConsumers(t.Context(), added); err != nil {
			t.Fatal(err)
		}
	}
	c, err := conn.JS.Consumer(t.Context(), crumbs.StreamToolCalls, mesh.GroupConsumer("added"))
	if err != nil {
		t.Fatal(err)
	}
	if peers := c.CachedInfo().Cluster; peers == nil || len(peers.Replicas) != 2 {
		t.Errorf("the added queue is in %+v, want a leader and two replicas", peers)
	}
}

const (
	raceRuns   = 12 // of one round
	raceCrumbs = 4
)

// raceOutboxes delivers Outboxes from two connections at once, beside late copies
// of their first crumbs, while the leader changes once a round. It counts the
// refusals of the copies by code.
func (s scene) raceOutboxes(rounds int) map[int]int {
	s.t.Helper()
	publishers := []*mesh.Conn{s.Mesh.Connect("first"), s.Mesh.Connect("second")}
	codes, mu := map[int]int{}, sync.Mutex{}
	for round := range rounds {
		for i := range raceRuns {
			run := crumbs.RunID(fmt.Sprintf("race_%d_%d", round, i))
			var all sync.WaitGroup
			for _, p := range publishers {
				all.Go(func() { s.deliver(p, run) })
				all.Go(func() {
					for range raceCrumbs { // one of them while the others are under way, the last surely after
						code := lateCopy(p, outbox(s.t, run)[0], run)
						mu.Lock()
						codes[code]++
						mu.Unlock()
					}
				})
			}
			if i == raceRuns/2 {
				_ = s.Mesh.StepDown(crumbs.StreamCrumbs) // a refusal is the next round's
			}
			all.Wait()
		}
	}
	stored := map[crumbs.RunID]uint64{}
	for _, c := range s.AllCrumbs() {
		if c.Base.AgentID != "racer" {
			continue
		}
		if stored[c.Base.RunID]++; c.CESequence != fmt.Sprintf("%010d", stored[c.Base.RunID]) {
			s.t.Errorf("%s: crumb %d on the stream has %s", c.Base.RunID, stored[c.Base.RunID], c.CESequence)
		}
	}
	for run, n := range stored {
		if n != raceCrumbs {
			s.t.Errorf("%s: %d crumbs", run, n)
		}
	}
	if len(stored) != rounds*raceRuns {
		s.t.Errorf("%d runs are stored, want %d", len(stored), rounds*raceRuns)
	}
	return codes
}

// deliver stores an Outbox, and tries again as a message that is given back.
func (s scene) deliver(p *mesh.Conn, run crumbs.RunID) {
	s.Until("the Outbox of "+string(run)+" is stored", func() bool {
		_, err := jscrumbs.Append(context.Background(), p, crumbs.CrumbFilter("racer", run), jscrumbs.Fence{}, 1, outbox(s.t, run))
		return err == nil
	})
}

// outbox is the crumbs of one decision.
func outbox(t *testing.T, run crumbs.RunID) []*nats.Msg {
	t.Helper()
	var all []*nats.Msg
	for seq := uint64(1); seq <= raceCrumbs; seq++ {
		e := crumbs.Event{ID: crumbs.CrumbID(run, seq), Source: crumbs.Source("orchestrator"), Type: crumbs.CEType(crumbs.TypeStepEnd), RunID: run, Sequence: seq,
			Data: fmt.Appendf(nil, `{"type":"step:end","runId":%q,"agentId":"racer","seq":%d}`, run, seq)}
		m, err := e.Message(crumbs.CrumbSubject("racer", run, crumbs.TypeStepEnd))
		if err != nil {
			t.Error(err)
		}
		all = append(all, m)
	}
	return all
}

// lateCopy publishes a run's first crumb on top of none and returns the code of the
// refusal, 0 when it came first.
func lateCopy(p *mesh.Conn, first *nats.Msg, run crumbs.RunID) int {
	_, err := p.JS.PublishMsg(context.Background(), first, jetstream.WithExpectLastSequenceForSubject(0, crumbs.CrumbFilter("racer", run)), jetstream.WithRetryAttempts(0))
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return int(api.ErrorCode)
	}
	return 0
}
