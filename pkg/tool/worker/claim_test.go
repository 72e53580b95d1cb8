package worker_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

// The same command may arrive twice at any distance; the second is dropped.
func TestWorker_P4_SecondRequestIsDropped(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		for _, effect := range []crumbs.Effect{crumbs.EffectOnce, crumbs.EffectIdempotent} {
			c := counting("pay_"+string(effect), effect, double)
			_, stop := l.serve(worker.Config{}, c.Tool)
			req := call(t, c.Tool, `{"n":1}`, func(c *crumbs.ToolCall) { c.CallID = crumbs.ToolCallID(run, 1, len(effect)) })
			l.send(req)
			wantStatus(t, l.result(), crumbs.StatusOK, "")
			wait(3 * time.Minute) // the duplicate window is over
			l.send(req)
			l.quiet(time.Minute)
			c.want(t, 1)
			l.settled()
			stop()
		}
	})
}

// A retry that somebody asked for runs whatever the effect: it has a claim of
// its own.
func TestWorker_NextAttemptRuns(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		c := counting("pay", crumbs.EffectOnce, double)
		l.serve(worker.Config{}, c.Tool)
		for n := 1; n <= 2; n++ {
			l.send(call(t, c.Tool, `{"n":1}`, func(c *crumbs.ToolCall) { c.Attempt = n }))
			if r := l.result(); r.Attempt != n || r.Status != crumbs.StatusOK {
				t.Errorf("result %+v", r)
			}
		}
		c.want(t, 2)
	})
}

func TestWorker_P5_RevokedCallNeverStarts(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		c := counting("pay", crumbs.EffectPure, double)
		req := call(t, c.Tool, `{"n":1}`)
		if started, err := l.Conn.Claims().Revoke(t.Context(), crumbs.ToolClaim(group, req.CallID, 1)); started || err != nil {
			t.Fatal(started, err)
		}
		l.send(req)
		l.serve(worker.Config{}, c.Tool)
		l.quiet(time.Minute)
		c.want(t, 0)
		l.settled()
	})
}

func TestWorker_P4_NothingStartsAfterStartBefore(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		c := counting("pay", crumbs.EffectOnce, double)
		l.send(call(t, c.Tool, `{"n":1}`, func(c *crumbs.ToolCall) { c.StartBefore = crumbs.At(time.Now().Add(time.Second)) }))
		l.send(call(t, c.Tool, `{"n":1}`, func(c *crumbs.ToolCall) {
			c.CallID, c.DeadlineAt = crumbs.ToolCallID(run, 1, 1), crumbs.At(time.Now().Add(time.Second))
		}))
		wait(time.Second)
		l.serve(worker.Config{}, c.Tool)
		l.quiet(time.Minute)
		c.want(t, 0)
		l.settled()
		if claim := l.claim(call(t, c.Tool, `{"n":1}`)); claim.State != "" {
			t.Errorf("a void call took the claim: %+v", claim)
		}
	})
}

// What a dead worker left behind, by effect (docs/protocol.md).
func TestWorker_RedeliveryByEffect(t *testing.T) {
	t.Parallel()
	const soon = 20 * time.Second
	for name, tc := range map[string]struct {
		effect  crumbs.Effect
		starts  int
		present bool // the holder still is
		late    bool // startBefore is over
		status  string
		code    fault.Code
		runs    int64
		dead    uint64
	}{
		"pure runs again":              {effect: crumbs.EffectPure, starts: 1, status: crumbs.StatusOK, runs: 1},
		"idempotent runs again":        {effect: crumbs.EffectIdempotent, starts: 2, present: true, status: crumbs.StatusOK, runs: 1},
		"poison":                       {effect: crumbs.EffectPure, starts: 3, status: crumbs.StatusError, code: fault.ToolLost, dead: 1},
		"once, holder gone":            {effect: crumbs.EffectOnce, starts: 1, status: crumbs.StatusUnknown, code: fault.OutcomeUnknown},
		"P12 once, holder present":     {effect: crumbs.EffectOnce, starts: 1, present: true, status: ""},
		"unsaid effect is once":        {effect: "", starts: 1, status: crumbs.StatusUnknown, code: fault.OutcomeUnknown},
		"late, pure":                   {effect: crumbs.EffectPure, starts: 1, late: true, status: ""},
		"late, once":                   {effect: crumbs.EffectOnce, starts: 1, late: true, status: crumbs.StatusUnknown, code: fault.OutcomeUnknown},
		"late, once, holder is around": {effect: crumbs.EffectOnce, starts: 1, late: true, present: true, status: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inLab(t, func(t *testing.T, l *lab) {
				c := counting("pay", crumbs.EffectOnce, double)
				req := call(t, c.Tool, `{"n":4}`, func(c *crumbs.ToolCall) {
					c.Effect = tc.effect
					if tc.late {
						c.StartBefore = crumbs.At(time.Now())
					}
				})
				seq := l.send(req)
				l.setClaim(req, mesh.Claim{State: mesh.ClaimStarted, Nonce: "n", Worker: "dead-1", MessageSeq: seq, Starts: tc.starts})
				if tc.present {
					l.present("dead-1")
				}
				l.serve(worker.Config{Name: "w2"}, c.Tool)
				if tc.status == "" {
					l.quiet(soon)
				} else {
					r := l.result()
					wantStatus(t, r, tc.status, tc.code)
					if tc.code == fault.OutcomeUnknown && r.Worker != "dead-1" {
						t.Errorf("unknown names worker %q, want the one that died", r.Worker)
					}
					if tc.code == "" {
						if claim := l.claim(req); claim.Starts != tc.starts+1 || claim.Worker != "w2" {
							t.Errorf("claim %+v", claim)
						}
					}
					wait(time.Second)
					l.settled()
				}
				c.want(t, tc.runs)
				if n := l.messages(crumbs.StreamDead, ">"); n != tc.dead {
					t.Errorf("%d dead letters, want %d", n, tc.dead)
				}
			})
		})
	}
}

// A real death: the worker's connection is cut in the middle of a payment. The
// message comes back after AckWait, the answer only when the holder is gone.
func TestWorker_P4_KilledDuringOnce(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		entered := make(chan struct{})
		release := make(chan struct{})
		first := counting("pay", crumbs.EffectOnce, func(tool.Context, input) (any, error) {
			close(entered)
			<-release
			return nil, errKilled
		})
		conn, _ := l.serve(worker.Config{Name: "w1", Grace: time.Second}, first.Tool)
		req := call(t, first.Tool, `{"n":1}`)
		l.send(req)
		<-entered
		conn.Close()
		cut := time.Now()

		second := counting("pay", crumbs.EffectOnce, double)
		l.serve(worker.Config{Name: "w2"}, second.Tool)
		r := l.result()
		wantStatus(t, r, crumbs.StatusUnknown, fault.OutcomeUnknown)
		if r.Worker != "w1" || r.Delivery < 2 || !strings.Contains(r.Error.Message, "w1") {
			t.Errorf("result %+v", r)
		}
		if took := time.Since(cut); took > l.Conn.Settings.PresenceTTL+2*l.Conn.Settings.AckWait+10*time.Second {
			t.Errorf("unknown after %v", took)
		}
		close(release)
		first.want(t, 1)
		second.want(t, 0)
		l.quiet(time.Minute)
		l.settled()
	})
}

func TestWorker_KilledDuringIdempotentRunsAgainWithTheSameID(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		ids := make(chan crumbs.CallID, 2)
		release := make(chan struct{})
		first := counting("pay", crumbs.EffectIdempotent, func(ctx tool.Context, _ input) (any, error) {
			ids <- ctx.CallID
			<-release
			return nil, errKilled
		})
		second := counting("pay", crumbs.EffectIdempotent, func(ctx tool.Context, _ input) (any, error) {
			ids <- ctx.CallID
			return "paid", nil
		})
		conn, _ := l.serve(worker.Config{Name: "w1", Grace: time.Second}, first.Tool)
		req := call(t, first.Tool, `{"n":1}`)
		l.send(req)
		a := <-ids
		conn.Close()
		cut := time.Now()
		l.serve(worker.Config{Name: "w2"}, second.Tool)
		r := l.result()
		wantStatus(t, r, crumbs.StatusOK, "")
		if b := <-ids; a != b || r.Worker != "w2" {
			t.Errorf("ids %s and %s, worker %s", a, b, r.Worker)
		}
		if took := time.Since(cut); took > 5*time.Second {
			t.Errorf("progress elsewhere after %v", took)
		}
		close(release)
		if claim := l.claim(req); claim.Starts != 2 {
			t.Errorf("claim %+v", claim)
		}
	})
}

func TestWorker_VersionsOfATool(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		old := counting("pay", crumbs.EffectOnce, double)
		l.serve(worker.Config{Name: "w1"}, old.Tool)
		newer := counting("pay", crumbs.EffectOnce, double, tool.Timeout(time.Second))
		req := call(t, newer.Tool, `{"n":1}`)

		// Nobody has the version: an end, naming both.
		l.send(req)
		start := time.Now()
		r := l.result()
		wantStatus(t, r, crumbs.StatusError, fault.ToolLost)
		for _, hash := range []string{req.ToolHash, old.Announcement(group).Hash()} {
			if !strings.Contains(r.Error.Message, hash) {
				t.Errorf("%q does not name %s", r.Error.Message, hash)
			}
		}
		if took := time.Since(start); took < 5*time.Second || took > 15*time.Second {
			t.Errorf("gave up after %v", took)
		}

		// A worker that has it comes: it gets the call.
		req.CallID = crumbs.ToolCallID(run, 1, 1)
		l.send(req)
		wait(2 * time.Second)
		l.serve(worker.Config{Name: "w2"}, newer.Tool)
		if r := l.result(); r.Status != crumbs.StatusOK || r.Worker != "w2" {
			t.Errorf("result %+v", r)
		}
		old.want(t, 0)

		// Nobody serves the handler at all.
		req.CallID, req.Handler = crumbs.ToolCallID(run, 1, 2), "refund"
		l.send(req)
		r = l.result()
		wantStatus(t, r, crumbs.StatusError, fault.ToolNotFound)
		if !strings.Contains(r.Error.Message, "refund") {
			t.Errorf("message %q", r.Error.Message)
		}
	})
}

// cancel as the orchestrator does it: revoke, then tell.
func (l *lab) cancel(req crumbs.ToolCall, tell bool) {
	l.t.Helper()
	started, err := l.Conn.Claims().Revoke(l.t.Context(), crumbs.ToolClaim(group, req.CallID, req.Attempt))
	if err != nil || !started {
		l.t.Fatal(started, err)
	}
	if !tell {
		return
	}
	if err := l.Conn.NATS.Publish(crumbs.CancelSubject(req.RunID), []byte(`{"type":"ctl.cancel","runId":"run_1","callIds":["run_1.1.0"]}`)); err != nil {
		l.t.Fatal(err)
	}
}

func TestWorker_F058_CancelInTheMiddle(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		effect crumbs.Effect
		told   bool // else only the claim says it
		within time.Duration
		status string
		code   fault.Code
	}{
		"pure":                    {crumbs.EffectPure, true, 100 * time.Millisecond, crumbs.StatusCancelled, fault.ToolCancelled},
		"once is unknown":         {crumbs.EffectOnce, true, 100 * time.Millisecond, crumbs.StatusUnknown, fault.OutcomeUnknown},
		"P5 ctl.cancel lost":      {crumbs.EffectIdempotent, false, 2 * time.Second, crumbs.StatusCancelled, fault.ToolCancelled},
		"P5 once ctl.cancel lost": {crumbs.EffectOnce, false, 2 * time.Second, crumbs.StatusUnknown, fault.OutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inLab(t, func(t *testing.T, l *lab) {
				entered := make(chan struct{}, 2)
				c := counting("pay", tc.effect, func(ctx tool.Context, in input) (any, error) {
					entered <- struct{}{}
					if in.N == 0 { // another call of the run, not cancelled
						return "ok", after(ctx, 10*time.Second)
					}
					<-ctx.Done()
					return nil, ctx.Err()
				})
				l.serve(worker.Config{}, c.Tool)
				req := call(t, c.Tool, `{"n":1}`)
				l.send(req)
				l.send(call(t, c.Tool, `{"n":0}`, func(c *crumbs.ToolCall) { c.CallID = crumbs.ToolCallID(run, 1, 1) }))
				<-entered
				<-entered
				start := time.Now()
				l.cancel(req, tc.told)
				r := l.result()
				wantStatus(t, r, tc.status, tc.code)
				if r.CallID != req.CallID || time.Since(start) > tc.within {
					t.Errorf("result of %s after %v", r.CallID, time.Since(start))
				}
				wantStatus(t, l.result(), crumbs.StatusOK, "")
			})
		})
	}
}

func TestWorker_CancelOfAnotherRunChangesNothing(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		c := counting("slow", crumbs.EffectPure, func(ctx tool.Context, _ input) (any, error) { return "ok", after(ctx, 10*time.Second) })
		l.serve(worker.Config{}, c.Tool)
		l.send(call(t, c.Tool, `{"n":1}`))
		wait(time.Second)
		for subject, body := range map[string]string{
			"ctl.cancel.run_2": `{"type":"ctl.cancel","runId":"run_2"}`,
			"ctl.cancel.run_3": `{"type":"ctl.cancel","runId":"run_1"}`, // not what its subject says
			"ctl.cancel.run_1": `{`,
		} {
			if err := l.Conn.NATS.Publish(subject, []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
		wantStatus(t, l.result(), crumbs.StatusOK, "")
	})
}

func TestWorker_F038_LimitsOfACall(t *testing.T) {
	t.Parallel()
	hang := func(ctx tool.Context, _ input) (any, error) { <-ctx.Done(); return "(no response)", nil }
	for name, tc := range map[string]struct {
		effect crumbs.Effect
		change func(*crumbs.ToolCall)
		status string
		code   fault.Code
		say    string
		after  time.Duration
	}{
		"timeout":        {crumbs.EffectPure, func(c *crumbs.ToolCall) { c.TimeoutMs = 5000 }, crumbs.StatusError, fault.ToolTimeout, "total limit of 5s", 5 * time.Second},
		"timeout, once":  {crumbs.EffectOnce, func(c *crumbs.ToolCall) { c.TimeoutMs = 5000 }, crumbs.StatusUnknown, fault.OutcomeUnknown, "total limit of 5s", 5 * time.Second},
		"deadline":       {crumbs.EffectPure, func(c *crumbs.ToolCall) { c.DeadlineAt = crumbs.At(time.Now().Add(7 * time.Second)) }, crumbs.StatusError, fault.ToolTimeout, "deadline", 7 * time.Second},
		"deadline, once": {crumbs.EffectOnce, func(c *crumbs.ToolCall) { c.DeadlineAt = crumbs.At(time.Now().Add(7 * time.Second)) }, crumbs.StatusUnknown, fault.OutcomeUnknown, "deadline", 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inLab(t, func(t *testing.T, l *lab) {
				c := counting("slow", tc.effect, hang)
				l.serve(worker.Config{}, c.Tool)
				start := time.Now()
				l.send(call(t, c.Tool, `{"n":1}`, tc.change))
				r := l.result()
				wantStatus(t, r, tc.status, tc.code)
				if !strings.Contains(r.Error.Message, tc.say) {
					t.Errorf("message %q does not say %q", r.Error.Message, tc.say)
				}
				if took := time.Since(start); took < tc.after-time.Second || took > tc.after+time.Second {
					t.Errorf("took %v, want about %v", took, tc.after)
				}
			})
		})
	}
}

func TestWorker_DrainLetsCallsFinish(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		entered := make(chan struct{}, 1)
		c := counting("slow", crumbs.EffectOnce, func(ctx tool.Context, _ input) (any, error) {
			entered <- struct{}{}
			return "ok", after(ctx, 20*time.Second)
		})
		_, stop := l.serve(worker.Config{Name: "w1", Slots: 1, Grace: time.Minute}, c.Tool)
		l.send(call(t, c.Tool, `{"n":1}`))
		<-entered
		l.send(call(t, c.Tool, `{"n":1}`, func(c *crumbs.ToolCall) { c.CallID = crumbs.ToolCallID(run, 1, 1) }))
		stop()
		if r := l.result(); r.Status != crumbs.StatusOK || r.Worker != "w1" || r.CallID != "run_1.1.0" {
			t.Errorf("result %+v", r)
		}
		c.want(t, 1)
		if n := l.messages(crumbs.StreamToolCalls, ">"); n != 1 {
			t.Errorf("%d messages left, want the one that did not start", n)
		}
		l.serve(worker.Config{Name: "w2"}, c.Tool)
		if r := l.result(); r.Status != crumbs.StatusOK || r.Worker != "w2" || r.CallID != "run_1.1.1" {
			t.Errorf("result %+v", r)
		}
	})
}

func TestWorker_DrainInterruptsAfterTheGrace(t *testing.T) {
	t.Parallel()
	for _, effect := range []crumbs.Effect{crumbs.EffectPure, crumbs.EffectOnce} {
		t.Run(string(effect), func(t *testing.T) {
			t.Parallel()
			inLab(t, func(t *testing.T, l *lab) {
				entered := make(chan struct{}, 1)
				hang := counting("slow", effect, func(ctx tool.Context, _ input) (any, error) {
					entered <- struct{}{}
					<-ctx.Done()
					return nil, ctx.Err()
				})
				quick := counting("slow", effect, func(tool.Context, input) (any, error) { return "ok", nil })
				_, stop := l.serve(worker.Config{Name: "w1", Grace: 5 * time.Second}, hang.Tool)
				l.send(call(t, hang.Tool, `{"n":1}`))
				<-entered
				start := time.Now()
				stop()
				if took := time.Since(start); took < 5*time.Second || took > 15*time.Second {
					t.Errorf("drained in %v", took)
				}
				l.serve(worker.Config{Name: "w2"}, quick.Tool)
				r := l.result()
				if effect == crumbs.EffectPure {
					wantStatus(t, r, crumbs.StatusOK, "")
					quick.want(t, 1)
				} else {
					wantStatus(t, r, crumbs.StatusUnknown, fault.OutcomeUnknown)
					quick.want(t, 0)
				}
				hang.want(t, 1)
				l.quiet(time.Minute)
				l.settled()
			})
		})
	}
}

// Rollouts replace a worker in the middle of a call more often than a call may be
// started: it costs the call no start and no wait, and the last worker ends it.
func TestWorker_P20_DrainCostsNoStart(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		entered := make(chan struct{}, 1)
		hang := counting("slow", crumbs.EffectIdempotent, func(ctx tool.Context, _ input) (any, error) {
			entered <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		req := call(t, hang.Tool, `{"n":1}`)
		l.send(req)
		const drains = 2 * mesh.StartsMax
		for range drains {
			_, stop := l.serve(worker.Config{Grace: time.Second}, hang.Tool)
			<-entered
			stop()
			if c := l.claim(req); c.State != mesh.ClaimReleased || c.Starts != 0 {
				t.Fatalf("claim %+v", c)
			}
		}
		quick := counting("slow", crumbs.EffectIdempotent, double)
		start := time.Now()
		l.serve(worker.Config{Name: "last"}, quick.Tool)
		r := l.result()
		wantStatus(t, r, crumbs.StatusOK, "")
		if r.Delivery != drains+1 || r.Attempt != 1 || !time.Now().Equal(start) {
			t.Errorf("attempt %d, delivery %d after %s", r.Attempt, r.Delivery, time.Since(start))
		}
		if c := l.claim(req); c.State != mesh.ClaimStarted || c.Starts != 1 || c.Worker != "last" {
			t.Errorf("claim %+v", c)
		}
		wait(time.Second)
		l.settled()
	})
}

// The process ends between the claim and the handler: nothing happened, so the call
// goes on elsewhere, whatever its effect.
func TestWorker_P20_OnceThatWasNotEnteredIsGivenBack(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		process, end := context.WithCancel(t.Context())
		conn := l.Connect("worker", meshtest.Tap(func(subject string) meshtest.Verdict {
			if strings.HasPrefix(subject, "$KV.claims.") {
				end()
			}
			return meshtest.Pass
		}))
		c := counting("pay", crumbs.EffectOnce, double)
		w, err := worker.New(t.Context(), worker.Config{Group: group, Name: "w1"}, conn, c.Tool)
		if err != nil {
			t.Fatal(err)
		}
		req := call(t, c.Tool, `{"n":1}`)
		body, err := json.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		err = w.Handle(process, &mesh.Delivery{Subject: crumbs.ToolCallSubject(group, run), Data: body, Sequence: 1, Count: 1})
		if fault.CodeOf(err) != fault.ShuttingDown {
			t.Errorf("got %v", err)
		}
		if c := l.claim(req); c.State != mesh.ClaimReleased || c.Starts != 0 {
			t.Errorf("claim %+v", c)
		}
		c.want(t, 0)
		l.send(req)
		l.serve(worker.Config{Name: "w2"}, c.Tool)
		wantStatus(t, l.result(), crumbs.StatusOK, "")
		c.want(t, 1)
	})
}

// A cancel takes the claim while the worker stops: the call is not given back to
// nobody, its run gets the outcome.
func TestWorker_P20_RevokedWhileItStops(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		entered := make(chan struct{})
		var req crumbs.ToolCall
		hang := counting("slow", crumbs.EffectIdempotent, func(ctx tool.Context, _ input) (any, error) {
			close(entered)
			<-ctx.Done()
			if started, err := l.Conn.Claims().Revoke(context.Background(), crumbs.ToolClaim(group, req.CallID, 1)); err != nil || !started {
				t.Errorf("revoked: %v %v", started, err)
			}
			return nil, ctx.Err()
		})
		req = call(t, hang.Tool, `{"n":1}`)
		_, stop := l.serve(worker.Config{Grace: time.Millisecond}, hang.Tool)
		l.send(req)
		<-entered
		stop()
		wantStatus(t, l.result(), crumbs.StatusCancelled, fault.ToolCancelled)
		l.settled()
	})
}
