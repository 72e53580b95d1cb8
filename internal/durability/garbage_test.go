package durability_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// put publishes a message raw.
func (s scene) put(subject, body string, header nats.Header) {
	s.t.Helper()
	if _, err := s.Mesh.Conn.Publish(context.Background(), &nats.Msg{Subject: subject, Data: []byte(body), Header: header}); err != nil {
		s.t.Fatal(err)
	}
}

// kept waits for the dead letter of a subject and checks its code.
func (s scene) kept(subject string, code fault.Code) {
	s.t.Helper()
	var found crumbs.DeadLetter
	s.Until("a dead letter of "+subject, func() bool {
		var page crumbs.DeadPage
		if err := s.ask(crumbs.EndpointDeadList, crumbs.DeadList{}, &page); err != nil {
			s.t.Fatal(err)
		}
		for _, l := range page.Letters {
			if l.Subject == subject {
				found = l
			}
		}
		return found.ID != 0
	})
	if found.Code != code || found.Reason == "" {
		s.t.Errorf("%s: %s %q, want %s", subject, found.Code, found.Reason, code)
	}
}

// Schedule 13. A message that cannot be read, in each consumer of the mesh: it is
// kept with the reason, nothing loops, and runs go on beside it.
func TestPoison_Schedule13_GarbageInEveryConsumer(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		s.Tools(groupBench, s.counted()...)
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator()
		garbage := map[string]fault.Code{
			crumbs.ControlSubject("run_x"):                                  fault.InvalidMessage,
			crumbs.OrderSubject("run_x.1.0", 1):                             fault.InvalidMessage,
			crumbs.ModelResultSubject("script", "run_x.1.m", 1):             fault.InvalidMessage,
			crumbs.ToolResultSubject(groupBench, "run_x.1.0", 1):            fault.InvalidMessage,
			crumbs.DecisionSubject("run_x", "run_x.1.0"):                    fault.InvalidMessage,
			"run.start.run_x":                                               fault.NotAvailable,
			crumbs.TimerDueSubject("run_x", 1):                              fault.InvalidMessage,
			crumbs.ToolCallSubject(groupBench, "run_x"):                     fault.InvalidMessage,
			crumbs.ModelCallSubject("script", "run_x"):                      fault.InvalidMessage,
			crumbs.CrumbSubject("clerk", "run_x", crumbs.TypeHumanRequired): fault.InvalidMessage,
		}
		for subject := range garbage {
			s.put(subject, "{", nil)
		}
		for subject, code := range garbage {
			s.kept(subject, code)
		}
		s.put(crumbs.RequestSubject("clerk"), "{", nats.Header{"Nats-Msg-Id": {"asked"}})
		s.put("run.request.Clerk", "{}", nil) // no agent can have this name
		s.kept("run.request.Clerk", fault.InvalidName)
		s.Until("the unreadable request has its one crumb", func() bool {
			for _, m := range s.Messages(crumbs.StreamCrumbs, "crumb.clerk.*.agent.error") {
				var e crumbs.AgentError
				if json.Unmarshal(m.Data(), &e) == nil && e.Error.Code == fault.InvalidMessage {
					return true
				}
			}
			return false
		})
		s.empty(crumbs.StreamRequests, crumbs.StreamInbox, crumbs.StreamToolCalls, crumbs.StreamModelCalls)
		s.Start("clerk", "run_1")
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
	})
}

// A call whose message no worker can read, of a run that waits for it: the run is
// told at once, by what the message says of itself outside of its body.
func TestPoison_UnreadableCallTellsItsRun(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.announced(groupBench, "pay")
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitType("run_1", crumbs.TypeRunStarted)
		spoil := func(stream, subject string) {
			t.Helper()
			m, err := s.Mesh.Conn.Next(context.Background(), stream, subject, 1)
			if err != nil || m == nil {
				t.Fatalf("no message on %s: %v", subject, err)
			}
			if err := s.Mesh.Conn.Remove(context.Background(), stream, m.Sequence); err != nil {
				t.Fatal(err)
			}
			header := nats.Header{}
			for k, v := range m.Header {
				if strings.HasPrefix(k, "ce-") {
					header[k] = v
				}
			}
			s.put(subject, "{", header)
		}
		gateway := s.Gateway()
		s.WaitType("run_1", crumbs.TypeToolCalled)
		gateway.Stop()
		spoil(crumbs.StreamToolCalls, crumbs.ToolCallSubject(groupBench, "run_1"))
		begun := time.Now()
		s.Tools(groupBench, s.counted()...)
		all := s.WaitType("run_1", crumbs.TypeToolErrored)
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("told after %s", took)
		}
		var e crumbs.ToolErrored
		if err := json.Unmarshal(all[len(all)-1].Body, &e); err != nil || e.Error.Code != fault.ToolLost || !strings.Contains(e.Error.Message, "INVALID_MESSAGE") || e.Error.Context["deadLetter"] == nil {
			t.Errorf("the crumb says %s", all[len(all)-1].Body)
		}
		s.Until("the model is asked again", func() bool { held, _ := s.Stream(crumbs.StreamModelCalls); return held == 1 })
		spoil(crumbs.StreamModelCalls, crumbs.ModelCallSubject("script", "run_1"))
		s.Gateway()
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").failed(fault.ModelError).ended("1.0:error")
		if n := len(s.letters("run_1")); n != 2 {
			t.Errorf("%d dead letters", n)
		}
		s.want(t, "run_1", "")
	})
}

// Handling a run's events panics at each line of the loop, again and again: the run
// ends and says so, the event is kept, and no other run waits.
func TestPoison_Schedule13_PanicAtEachLine(t *testing.T) {
	for _, point := range []orchestrator.Point{"read", "helped", "decided"} {
		t.Run(string(point), func(t *testing.T) {
			bubble(t, func(t *testing.T, s scene) {
				s.Gateway()
				s.Tools(groupBench, s.counted()...)
				s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
				var armed atomic.Bool
				s.Orchestrator(func(c *orchestrator.Config) {
					c.At = func(at orchestrator.Point, run crumbs.RunID) {
						if run != "run_bad" {
							return
						}
						if at == point && armed.Load() {
							panic("at " + string(at))
						}
						armed.Store(armed.Load() || at == "delivered") // the request was decided
					}
				})
				s.Start("clerk", "run_bad")
				s.Start("clerk", "run_good")
				all := s.WaitEnd("run_bad")
				var last crumbs.AgentError
				if err := json.Unmarshal(all[len(all)-1].Body, &last); err != nil || last.Error == nil || last.Error.Code != fault.InternalError {
					t.Errorf("it ended with %s", all[len(all)-1].Body)
				}
				s.WaitEnd("run_good")
				account(t, s.Fleet, "run_good").completed("Done.").ended("1.0:ok")
				s.Until("the event is kept", func() bool { return len(s.letters("run_bad")) > 0 })
				s.empty(crumbs.StreamInbox, crumbs.StreamRequests)
			})
		})
	}
}

// A request whose handling panics: its run exists for the one crumb that says so.
func TestPoison_RequestThatPanics(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.apply(clerk("clerk", turn("Done.")))
		panics := 0
		s.Orchestrator(func(c *orchestrator.Config) {
			c.At = func(at orchestrator.Point, run crumbs.RunID) {
				if at == "decided" && run == "run_bad" && panics < 3 {
					panics++
					panic("at " + string(at))
				}
			}
		})
		s.Start("clerk", "run_bad")
		s.WaitEnd("run_bad")
		account(t, s.Fleet, "run_bad").failed(fault.InternalError).told(crumbs.TypeAgentError)
		s.kept(crumbs.RequestSubject("clerk"), fault.InternalError)
		s.empty(crumbs.StreamRequests)
	})
}

// A record of a newer release is left to one that can read it: its events come back
// every few seconds, readiness says so, and nothing of the run is lost.
func TestPoison_NewerRecordWaitsForItsRelease(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		s.Tools(groupBench, s.counted()...)
		s.apply(asking(clerk("clerk", turn("", call("pay")), turn("Done.")), "pay"))
		day := s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitSuspended("run_1")
		day.Stop()
		rewrite := func(change func(string) string) {
			t.Helper()
			bucket := s.Mesh.Conn.Bucket(crumbs.BucketRuns)
			r, err := bucket.Get(context.Background(), "run_1")
			if err != nil {
				t.Fatal(err)
			}
			w := mesh.Write{Key: "run_1", Value: []byte(change(string(r.Value))), Revision: r.Revision, Header: map[string]string{}}
			for k := range r.Header {
				if strings.HasPrefix(k, "crumb-") {
					w.Header[k] = r.Header.Get(k)
				}
			}
			if _, err := bucket.Set(context.Background(), w); err != nil {
				t.Fatal(err)
			}
		}
		const now, newer = `{"version":1,`, `{"version":99,`
		rewrite(func(record string) string { return strings.Replace(record, now, newer, 1) })
		var health func() error
		old := s.Orchestrator(func(c *orchestrator.Config) { c.Health = func(check func() error) { health = check } })
		if err := health(); err != nil {
			t.Errorf("before it met the record: %v", err)
		}
		if _, err := s.Approve(crumbs.ToolCallID("run_1", 1, 0)); err != nil {
			t.Fatal(err)
		}
		s.Until("readiness says so", func() bool { return fault.CodeOf(health()) == fault.StateTooNew })
		<-time.After(time.Minute)
		if n := len(s.letters("run_1")); n != 0 {
			t.Errorf("%d of its events were given up", n)
		}
		if held, _ := s.Stream(crumbs.StreamInbox); held != 1 {
			t.Errorf("%d events wait, want the decision", held)
		}
		old.Stop()
		rewrite(func(record string) string { return strings.Replace(record, newer, now, 1) })
		s.Orchestrator()
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
	})
}

// A request that says its body stands elsewhere is refused: carried out, it would run
// with no input.
func TestRequest_DataRefIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Tools(groupBench, s.counted()...)
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator()
		s.put(crumbs.RequestSubject("clerk"), `{"runId":"run_1","dataref":{"object":"run_1/`+strings.Repeat("0", 64)+`","bytes":300000}}`, nil)
		s.WaitEnd("run_1")
		view, err := client.New(s.Mesh.Conn).RunView(context.Background(), "run_1")
		if err != nil || view.Error == nil || view.Error.Code != fault.NotAvailable || !strings.Contains(view.Error.Message, `"dataref" is not built in this version: a request comes whole, with at most 921600 bytes`) {
			t.Errorf("%+v, %v", view.Error, err)
		}
		s.want(t, "run_1", "")
	})
}

// A letter whose body names a value that never was is shown as it came.
func TestDead_BrokenDataRefIsShown(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Orchestrator()
		subject := crumbs.ToolResultSubject(groupBench, "run_x.1.0", 1)
		body := `{"runId":"run_x","dataref":{"object":"nothing","bytes":5}}`
		s.put(subject, body, nil)
		s.kept(subject, fault.InvalidMessage)
		var page crumbs.DeadPage
		if err := s.ask(crumbs.EndpointDeadList, crumbs.DeadList{}, &page); err != nil || len(page.Letters) != 1 {
			t.Fatal(page, err)
		}
		var shown json.RawMessage
		if err := s.ask(crumbs.EndpointDeadGet, crumbs.DeadGet{ID: page.Letters[0].ID}, &shown); err != nil || !strings.Contains(string(shown), "nothing") {
			t.Errorf("%s, %v", shown, err)
		}
	})
}
