package jscrumbs_test

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs/jscrumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/embedded"
)

// reading is a Follow whose items a test takes one by one.
type reading struct {
	t     *testing.T
	items chan jscrumbs.Item
	err   chan error // what it ended with
	stop  context.CancelFunc
}

func follow(t *testing.T, conn *mesh.Conn, cfg jscrumbs.FollowConfig) *reading {
	ctx, stop := context.WithCancel(context.Background())
	r := &reading{t: t, items: make(chan jscrumbs.Item), err: make(chan error, 1), stop: stop}
	t.Cleanup(stop)
	go func() {
		defer close(r.items)
		for item, err := range jscrumbs.Follow(ctx, conn, cfg) {
			if err != nil {
				r.err <- err
				return
			}
			select {
			case r.items <- item:
			case <-ctx.Done():
				r.err <- ctx.Err()
				return
			}
		}
		r.err <- nil
	}()
	return r
}

// want takes items and compares their labels.
func (r *reading) want(labels ...string) {
	r.t.Helper()
	var got []string
	for range labels {
		item, ok := <-r.items
		if !ok {
			r.t.Fatalf("ended with %v after %v, want %v", <-r.err, got, labels)
		}
		got = append(got, label(item))
	}
	if diff := cmp.Diff(labels, got); diff != "" {
		r.t.Fatal(diff)
	}
}

// ends takes the end, which must be without an error.
func (r *reading) ends() {
	r.t.Helper()
	for item := range r.items {
		r.t.Errorf("more than wanted: %s", label(item))
	}
	if err := <-r.err; err != nil {
		r.t.Error(err)
	}
}

// fails takes the end, which must be the error of a code.
func (r *reading) fails(code fault.Code) *fault.Error {
	r.t.Helper()
	for item := range r.items {
		r.t.Errorf("more than wanted: %s", label(item))
	}
	err := <-r.err
	if fault.CodeOf(err) != code {
		r.t.Fatalf("got %v, want %s", err, code)
	}
	return fault.From(err)
}

// Replay and live are one: who joins late, in the middle or again with the last
// number gets just what is missing, and two readers take nothing from each other.
func TestFollow_F127_ST8_CF_N15_EachReaderGetsAllInOrder(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	a, other := newAuthor(t, m.Conn, "run_1"), newAuthor(t, m.Conn, "run_2")
	early := follow(t, m.Conn, jscrumbs.FollowConfig{Run: a.run})
	a.crumbs(crumbs.TypeRunStarted, crumbs.TypeStepEnd)
	other.crumbs(crumbs.TypeRunStarted, crumbs.TypeRunEnded)
	early.want("1 agent:run:start", "2 step:end")
	second := follow(t, m.Connect("second"), jscrumbs.FollowConfig{Run: a.run, Agent: agent})
	second.want("1 agent:run:start")
	early.stop() // dropped; the other goes on

	a.crumbs(crumbs.TypeToolCalled, crumbs.TypeToolResulted)
	second.want("2 step:end", "3 tool:call", "4 tool:result")
	again := follow(t, m.Conn, jscrumbs.FollowConfig{Run: a.run, After: 2})
	again.want("3 tool:call", "4 tool:result")
	a.crumbs(crumbs.TypeStepEnd, crumbs.TypeRunEnded)
	for _, r := range []*reading{second, again} {
		r.want("5 step:end", "6 agent:run:end")
		r.ends()
	}
}

// A run that is over is handed on and closed: no endless wait, whatever the
// cursor.
func TestFollow_F128_AfterTheEnd(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	a := newAuthor(t, m.Conn, "run_1")
	a.crumbs(crumbs.TypeRunStarted)
	a.crumb(crumbs.TypeAgentError, map[string]any{"error": fault.New(fault.ModelError, "overloaded"), "durationMs": 5})
	whole := follow(t, m.Conn, jscrumbs.FollowConfig{Run: a.run})
	whole.want("1 agent:run:start")
	last := <-whole.items
	whole.ends()
	var body crumbs.AgentError
	if err := last.Decode(&body); err != nil || body.Error.Code != fault.ModelError || last.Pending != 0 {
		t.Errorf("got %+v with %d pending, %v; want the stored error, the last", body, last.Pending, err)
	}
	if want := string(a.body(crumbs.TypeAgentError, 2, map[string]any{"error": body.Error, "durationMs": 5})); string(last.Raw) != want {
		t.Errorf("raw body %s, want it as stored %s", last.Raw, want)
	}
	for _, after := range []uint64{2, 7} {
		follow(t, m.Conn, jscrumbs.FollowConfig{Run: a.run, After: after}).ends()
	}
}

func TestFollow_F127_DA162_ExpiredCursor(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	a := newAuthor(t, m.Conn, "run_1")
	a.crumbs(crumbs.TypeRunStarted, crumbs.TypeStepEnd, crumbs.TypeToolCalled, crumbs.TypeRunEnded)
	s, err := m.Conn.JS.Stream(context.Background(), crumbs.StreamCrumbs)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(context.Background(), jetstream.WithPurgeSequence(3)); err != nil {
		t.Fatal(err)
	}
	e := follow(t, m.Conn, jscrumbs.FollowConfig{Run: a.run, After: 1}).fails(fault.CrumbsExpired)
	if e.Context["firstSeq"] != uint64(3) {
		t.Errorf("context %v, want firstSeq 3", e.Context)
	}
	resync := follow(t, m.Conn, jscrumbs.FollowConfig{Run: a.run, After: 2})
	resync.want("3 tool:call", "4 agent:run:end")
	resync.ends()
}

// Deltas stand between the crumb they name and the one that closes their call,
// whether both are read live or after the end.
func TestFollow_O1_O2_DeltasAreMerged(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	a := newAuthor(t, m.Conn, "run_1")
	want := []string{"1 agent:run:start", "1 text:delta 0", "1 text:delta 1", "2 step:end", "3 tool:call",
		"3 tool:result:partial 0", "3 tool:result:partial 2/0", "4 tool:result", "5 step:end -2", "6 agent:run:end"}
	config := jscrumbs.FollowConfig{Run: a.run, Deltas: true}

	live := follow(t, m.Conn, config)
	a.text(1, 0) // overtakes its crumb
	a.crumbs(crumbs.TypeRunStarted)
	live.want(want[:2]...)
	a.crumb(crumbs.TypeStepEnd, map[string]any{"attempt": 1, "deltas": 2}) // overtakes the last delta
	a.text(1, 1)
	live.want(want[2:4]...)
	call := crumbs.ToolCallID(a.run, 1, 0)
	a.crumbs(crumbs.TypeToolCalled)
	a.partial(3, call, 1, 0)
	a.partial(3, call, 2, 0)
	live.want(want[4:7]...)
	a.crumb(crumbs.TypeToolResulted, map[string]any{"toolCallId": call, "attempt": 2, "deltas": 1})
	a.crumb(crumbs.TypeStepEnd, map[string]any{"attempt": 1, "step": 2, "deltas": 2}) // they are lost
	a.crumbs(crumbs.TypeRunEnded)
	live.want(want[7:]...)
	live.ends()

	late := follow(t, m.Conn, config)
	late.want(want...)
	late.ends()
	without := follow(t, m.Conn, jscrumbs.FollowConfig{Run: a.run})
	without.want("1 agent:run:start", "2 step:end", "3 tool:call", "4 tool:result", "5 step:end", "6 agent:run:end")
	without.ends()
}

// A reader's own slowness is no reason to call a delta missing.
func TestFollow_SlowReaderMissesNothing(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		m := meshtest.Start(t)
		a := newAuthor(t, m.Conn, "run_1")
		a.crumbs(crumbs.TypeRunStarted)
		const deltas = 100
		for index := range deltas {
			a.text(1, index)
		}
		a.crumb(crumbs.TypeStepEnd, map[string]any{"attempt": 1, "deltas": deltas})
		a.crumbs(crumbs.TypeRunEnded)
		var got int
		for item, err := range jscrumbs.Follow(t.Context(), m.Conn, jscrumbs.FollowConfig{Run: a.run, Deltas: true}) {
			if err != nil || item.DeltasMissing > 0 {
				t.Fatalf("%s: %v", label(item), err)
			}
			got++
			<-time.After(2 * jscrumbs.DeltaWait)
		}
		if got != deltas+3 {
			t.Errorf("%d items, want %d", got, deltas+3)
		}
		m.Conn.Close()
		m.Server.Stop()
	})
}

// A body whose run, agent or kind is not that of its subject is nobody's delta:
// a worker may not speak for the model, nor for another run.
func TestFollow_ForgedDeltasAreSkipped(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	a := newAuthor(t, m.Conn, "run_1")
	a.crumbs(crumbs.TypeRunStarted)
	subject := crumbs.PartialSubject(agent, a.run, "docs")
	a.delta(subject, crumbs.TypeTextDelta, 1, map[string]any{"attempt": 1, "index": 0, "delta": "forged"})
	a.delta(subject, crumbs.TypeResultPartial, 1, map[string]any{"attempt": 1, "index": 0, "runId": "run_2", "toolCallId": "run_2.1.0"})
	a.delta(subject, crumbs.TypeResultPartial, 1, map[string]any{"attempt": 1, "index": 0, "toolCallId": "run_2.1.0"})
	a.delta(subject, crumbs.TypeResultPartial, 1, map[string]any{"attempt": 1, "index": -1, "toolCallId": "run_1.1.0"})
	a.delta(subject, "tool:result:other", 1, map[string]any{"attempt": 1, "index": 0})
	a.publish(a.message(subject, crumbs.TypeResultPartial, 1, []byte(`[]`)))
	a.partial(1, crumbs.ToolCallID(a.run, 1, 0), 1, 0)
	r := follow(t, m.Conn, jscrumbs.FollowConfig{Run: a.run, Deltas: true})
	r.want("1 agent:run:start", "1 tool:result:partial 0")
	a.crumbs(crumbs.TypeRunEnded)
	r.want("2 agent:run:end")
	r.ends()
}

// The stream of a start ends when the run waits for people; of one that has gone
// on since, it does not.
func TestFollow_CF_O08_UntilSuspended(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	a := newAuthor(t, m.Conn, "run_1")
	a.crumbs(crumbs.TypeRunStarted)
	a.crumb(crumbs.TypeHumanRequired, map[string]any{"suspended": false})
	a.crumb(crumbs.TypeHumanRequired, map[string]any{"suspended": true})
	config := jscrumbs.FollowConfig{Run: a.run, UntilSuspended: true}
	r := follow(t, m.Conn, config)
	r.want("1 agent:run:start", "2 human:required", "3 human:required")
	r.ends()

	config.After = 3
	resumed := follow(t, m.Conn, config)
	a.crumbs(crumbs.TypeHumanResumed)
	a.crumb(crumbs.TypeToolResulted, map[string]any{"suspended": true})
	resumed.want("4 human:resumed", "5 tool:result")
	resumed.ends()

	a.crumbs(crumbs.TypeHumanResumed, crumbs.TypeRunEnded)
	for _, after := range []uint64{0, 3} {
		config.After = after
		r := follow(t, m.Conn, config)
		r.want([]string{"1 agent:run:start", "2 human:required", "3 human:required", "4 human:resumed",
			"5 tool:result", "6 human:resumed", "7 agent:run:end"}[after:]...)
		r.ends()
	}
}

func TestFollow_ClaimCheckIsReadWhole(t *testing.T) {
	t.Parallel()
	m, ctx := meshtest.Start(t), context.Background()
	a := newAuthor(t, m.Conn, "run_1")
	whole := a.body(crumbs.TypeRunEnded, 1, map[string]any{"output": strings.Repeat("x", mesh.InlineMax), "finishReason": "stop", "steps": 1, "durationMs": 1, "agentRevision": "r"})
	short, object, err := m.Conn.Blobs(crumbs.AreaCrumb).CheckIn(ctx, a.run, whole, mesh.BaseFields()...)
	if err != nil || object == "" {
		t.Fatalf("check in: %q, %v", object, err)
	}
	a.store(1, a.message(crumbs.CrumbSubject(agent, a.run, crumbs.TypeRunEnded), crumbs.TypeRunEnded, 1, short))
	r := follow(t, m.Conn, jscrumbs.FollowConfig{Run: a.run})
	item := <-r.items
	r.ends()
	if string(item.Raw) != string(whole) || item.DataRef != nil {
		t.Errorf("got %d bytes, dataref %v; want the %d bytes of the whole", len(item.Raw), item.DataRef, len(whole))
	}
}

// From now on: all runs, also those that began before, and none that ended.
func TestFollow_AllFromNowOn(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		m := meshtest.Start(t)
		a, b := newAuthor(t, m.Conn, "run_1"), newAuthor(t, m.Conn, "run_2")
		a.crumbs(crumbs.TypeRunStarted)
		begun := time.Now()
		<-time.After(time.Millisecond)
		b.crumbs(crumbs.TypeRunStarted, crumbs.TypeAgentError)
		r := follow(t, m.Conn, jscrumbs.FollowConfig{All: true, Deltas: true})
		synctest.Wait() // it reads
		a.text(1, 0)
		r.want("1 text:delta 0")
		a.crumb(crumbs.TypeStepEnd, map[string]any{"attempt": 1, "deltas": 1})
		r.want("2 step:end")
		a.crumbs(crumbs.TypeRunEnded)
		r.want("3 agent:run:end")
		a.text(1, 1) // late
		c := newAuthor(t, m.Conn, "run_3")
		c.crumbs(crumbs.TypeRunStarted)
		r.want("1 agent:run:start")

		since := follow(t, m.Conn, jscrumbs.FollowConfig{All: true, Since: begun.Add(time.Millisecond)})
		since.want("1 agent:run:start", "2 agent:error", "2 step:end", "3 agent:run:end", "1 agent:run:start")
		r.stop()
		since.stop()
		for _, r := range []*reading{r, since} {
			if err := <-r.err; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the context's error", err)
			}
		}
		synctest.Wait()
		m.Conn.Close()
		m.Server.Stop()
	})
}

// A consumer that the server dropped is made again, and a reader that is done
// leaves none behind.
func TestFollow_ConsumerIsMadeAgain(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		m, ctx := meshtest.Start(t), context.Background()
		s, err := m.Conn.JS.Stream(ctx, crumbs.StreamCrumbs)
		if err != nil {
			t.Fatal(err)
		}
		readers := func() (names []string) {
			for name := range s.ConsumerNames(ctx).Name() {
				if name != mesh.ConsumerApprovals {
					names = append(names, name)
				}
			}
			return names
		}
		a := newAuthor(t, m.Conn, "run_1")
		a.crumbs(crumbs.TypeRunStarted, crumbs.TypeStepEnd)
		r := follow(t, m.Conn, jscrumbs.FollowConfig{Run: a.run})
		r.want("1 agent:run:start", "2 step:end")
		for _, name := range readers() {
			if err := s.DeleteConsumer(ctx, name); err != nil {
				t.Fatal(err)
			}
		}
		a.crumbs(crumbs.TypeToolCalled)
		r.want("3 tool:call")
		a.crumbs(crumbs.TypeRunEnded)
		r.want("4 agent:run:end")
		r.ends()
		synctest.Wait()
		if left := readers(); len(left) > 0 {
			t.Errorf("consumers %v are left", left)
		}
		m.Conn.Close()
		m.Server.Stop()
	})
}

// A server that restarts costs no crumb and doubles none.
func TestFollow_ST8_163_ServerRestarts(t *testing.T) {
	t.Parallel()
	meshtest.Real(t)
	store := t.TempDir()
	server, err := embedded.Start(embedded.Config{Store: store, Port: -1})
	if err != nil {
		t.Fatal(err)
	}
	address := server.URL()
	conn, err := mesh.Connect(context.Background(), mesh.ConnectConfig{Server: address, Settings: mesh.DevSettings()})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Ensure(context.Background(), mesh.Topology{}); err != nil {
		t.Fatal(err)
	}
	a := newAuthor(t, conn, "run_1")
	a.crumbs(crumbs.TypeRunStarted, crumbs.TypeStepEnd)
	r := follow(t, conn, jscrumbs.FollowConfig{Run: a.run, Deltas: true})
	r.want("1 agent:run:start", "2 step:end")

	server.Stop()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	if server, err = embedded.Start(embedded.Config{Store: store, Port: port}); err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	back, err := mesh.Connect(context.Background(), mesh.ConnectConfig{Server: address, Settings: mesh.DevSettings()})
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	a.conn = back
	a.crumbs(crumbs.TypeToolCalled, crumbs.TypeRunEnded)
	r.want("3 tool:call", "4 agent:run:end")
	r.ends()
}

func TestFollow_SaysWhyItCannot(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	for _, tt := range []struct {
		name string
		cfg  jscrumbs.FollowConfig
		want fault.Code
	}{
		{"no run", jscrumbs.FollowConfig{}, fault.InvalidName},
		{"a wildcard", jscrumbs.FollowConfig{Run: "*"}, fault.InvalidName},
		{"an agent that is none", jscrumbs.FollowConfig{Run: "run_1", Agent: "*"}, fault.InvalidName},
		{"a run and all", jscrumbs.FollowConfig{Run: "run_1", All: true}, fault.InvalidInput},
		{"a number and all", jscrumbs.FollowConfig{After: 1, All: true}, fault.InvalidInput},
		{"a time and a run", jscrumbs.FollowConfig{Run: "run_1", Since: time.Unix(1, 0)}, fault.InvalidInput},
	} {
		t.Run(tt.name, func(t *testing.T) { _ = follow(t, m.Conn, tt.cfg).fails(tt.want) })
	}
	t.Run("a foreign crumb", func(t *testing.T) {
		a := newAuthor(t, m.Conn, "run_2")
		a.publish(a.message(crumbs.CrumbSubject(agent, a.run, crumbs.TypeRunEnded), crumbs.TypeRunEnded, 1, a.body(crumbs.TypeRunEnded, 1, map[string]any{"runId": "run_3"})))
		_ = follow(t, m.Conn, jscrumbs.FollowConfig{Run: a.run}).fails(fault.InvalidMessage)
	})
	t.Run("no stream", func(t *testing.T) {
		if err := m.Conn.JS.DeleteStream(context.Background(), crumbs.StreamCrumbs); err != nil {
			t.Fatal(err)
		}
		_ = follow(t, m.Conn, jscrumbs.FollowConfig{Run: "run_1"}).fails(fault.TopologyMissing)
	})
	t.Run("no connection", func(t *testing.T) {
		m.Conn.Close()
		_ = follow(t, m.Conn, jscrumbs.FollowConfig{Run: "run_1"}).fails(fault.Unavailable)
	})
}

// A closing crumb of a tool call names the attempt whose deltas it counts; those
// of one that was given up do not stand for them.
func TestFollow_ClosingCrumbNamesItsAttempt(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	a := newAuthor(t, m.Conn, "run_1")
	call := crumbs.ToolCallID(a.run, 1, 0)
	a.crumbs(crumbs.TypeToolCalled)
	a.partial(1, call, 1, 0)
	a.crumb(crumbs.TypeToolErrored, map[string]any{"toolCallId": call, "attempt": 2, "deltas": 1}) // its one is lost
	a.crumbs(crumbs.TypeRunEnded)
	f := follow(t, m.Conn, jscrumbs.FollowConfig{Run: a.run, Deltas: true})
	f.want("1 tool:call", "1 tool:result:partial 0", "2 tool:error -1", "3 agent:run:end")
	f.ends()
}
