package durability_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// ledger adds up everything that is written to the streams and buckets of a mesh,
// whether it stays or not: a subscriber hears each publication.
type ledger struct {
	mu      sync.Mutex
	bytes   map[string]int // by stream
	largest map[string]int
}

func (s scene) ledger() *ledger {
	s.t.Helper()
	l := &ledger{bytes: map[string]int{}, largest: map[string]int{}}
	streams := s.Mesh.Conn.JS.ListStreams(s.t.Context())
	for info := range streams.Info() {
		for _, subject := range info.Config.Subjects {
			sub, err := s.Mesh.Conn.NATS.Subscribe(subject, func(m *nats.Msg) { l.add(info.Config.Name, m) })
			if err == nil {
				err = sub.SetPendingLimits(-1, -1)
			}
			if err != nil {
				s.t.Fatal(err)
			}
		}
	}
	if err := streams.Err(); err != nil {
		s.t.Fatal(err)
	}
	return l
}

func (l *ledger) add(stream string, m *nats.Msg) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes[stream] += m.Size()
	l.largest[stream] = max(l.largest[stream], len(m.Data))
}

// top is the largest body that a stream was given.
func (l *ledger) top(stream string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.largest[stream]
}

// sum is what was written since the last sum.
func (l *ledger) sum() (bytes map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	bytes, l.bytes = l.bytes, map[string]int{}
	return bytes
}

// reader is an agent that reads one page a step.
func reader(id crumbs.AgentID, steps int) *agent.Definition {
	turns := make([]agent.Turn, 0, steps+1)
	for n := range steps {
		turns = append(turns, turn(page(n), agent.ScriptCall{Name: "tool_read", Args: json.RawMessage(fmt.Sprintf(`{"page":%d}`, n))}))
	}
	d := having(clerk(id, append(turns, turn("Done."))...), groupBench, "read", crumbs.EffectPure)
	d.Steps.Max = steps + 1
	return d
}

func page(n int) string { return fmt.Sprintf("Page %d. ", n) }

// pages is the output of a reader of so many steps.
func pages(steps int) string {
	var all strings.Builder
	for n := range steps {
		all.WriteString(page(n))
	}
	return all.String() + "Done."
}

// largePage is the page of one MiB.
const largePage = 30

func (s scene) read(large bool) tool.Tool {
	return tool.New("read", "Read a page.", func(_ tool.Context, args json.RawMessage, _ tool.Yield) (json.RawMessage, error) {
		var in struct{ Page int }
		if err := json.Unmarshal(args, &in); err != nil {
			return nil, err
		}
		size := 300 + in.Page%7*500
		if large && in.Page == largePage {
			size = tool.ResultMax - 2
		}
		return json.Marshal(strings.Repeat(string(rune('a'+in.Page%26)), size))
	}, tool.Effect(crumbs.EffectPure))
}

// play runs an agent to its end and returns what was written.
func (s scene) play(l *ledger, id crumbs.AgentID) map[string]int {
	s.t.Helper()
	run := crumbs.RunID("run_" + string(id))
	l.sum()
	s.Start(id, run)
	s.settled(run)
	return l.sum()
}

// What a run writes to all streams and buckets together grows as what it says: 500
// steps cost about twice 250, and no message grows with the run.
func TestStored_GrowsWithTheRun(t *testing.T) {
	t.Parallel()
	s := realTime(t)
	s.Gateway()
	s.Tools(groupBench, s.read(false))
	s.apply(reader("half", 250), reader("whole", 500))
	s.Orchestrator()
	l := s.ledger()
	half, whole := s.play(l, "half"), s.play(l, "whole")
	account(t, s.Fleet, "run_whole").completed(pages(500))
	for name, before := range half {
		t.Logf("%-10s %9d bytes of 250 steps, %9d of 500; the largest %d", name, before, whole[name], l.top(name))
		if after := whole[name]; after > before*5/2 && name != "KV_"+crumbs.BucketWorkers { // heartbeats are of time, not of steps
			t.Errorf("%s: %d bytes after 250 steps, %d after 500", name, before, after)
		}
		if l.top(name) > mesh.InlineMax/2 && name != crumbs.StreamBlobs {
			t.Errorf("%s: a message of %d bytes", name, l.top(name))
		}
	}
}

// One result of a MiB in the middle is written a few times, and no message carries
// it: the other messages of the run are as they would be without it.
func TestStored_OneLargeResult(t *testing.T) {
	t.Parallel()
	s := realTime(t)
	s.Gateway()
	s.apply(reader("plain", 100), reader("large", 100))
	s.Orchestrator()
	l := s.ledger()
	worker := s.Tools(groupBench, s.read(false))
	plain := s.play(l, "plain")
	worker.Stop()
	s.Tools(groupBench, s.read(true))
	large := s.play(l, "large")
	h := account(t, s.Fleet, "run_large")
	h.completed(pages(100))
	const blobs = crumbs.StreamBlobs
	for name, before := range plain {
		t.Logf("%-10s %9d bytes, %9d with the large result; the largest %d", name, before, large[name], l.top(name))
		if extra := large[name] - before; name != blobs && extra > before/10+16<<10 {
			t.Errorf("%s: %d bytes more with the large result", name, extra)
		}
		if name != blobs && l.top(name) > mesh.InlineMax/2 {
			t.Errorf("%s: a message of %d bytes", name, l.top(name))
		}
	}
	if extra := large[blobs] - plain[blobs]; extra < tool.ResultMax || extra > 5*tool.ResultMax {
		t.Errorf("the result of %d bytes was put aside with %d bytes", tool.ResultMax, extra)
	}
}
