package durability_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/hook"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// diary is what hooks were called with, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(ctx hook.Context, what string, v json.RawMessage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, string(ctx.CallID)+" "+ctx.Scope+" "+what+" "+string(v))
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

// named is a hook that a worker of the bench registered.
func named(name string) []agent.Hook {
	return []agent.Hook{{Name: name, Worker: &agent.HookWorker{Group: groupBench, Hook: name}, TimeoutMs: 10_000}}
}

// hooked is a clerk whose run and whose tool pay have hooks.
func hooked(d *agent.Definition, run, pay agent.Hooks) *agent.Definition {
	d.Hooks = run
	for i := range d.Tools {
		if d.Tools[i].Name == "pay" {
			d.Tools[i].Hooks = pay
		}
	}
	return d
}

// Hooks of both scopes on the whole path: what each is called with, what runs, what
// crumbs show, what the model reads (CF-K02, CF-K09, CF-K20, CF-K22).
func TestHook_WholePath_CF_K02_CF_K09_CF_K20_CF_K22(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		d := &diary{}
		s.Tools(groupBench, append(s.counted(),
			hook.Register("greet", hook.Hooks{
				BeforeRun: func(ctx hook.Context, in json.RawMessage) (hook.Before, error) {
					d.note(ctx, "before", in)
					return hook.Continue("hello"), nil
				},
				AfterRun: func(ctx hook.Context, out json.RawMessage) (hook.After, error) {
					d.note(ctx, "after", out)
					return hook.Replace("Bye."), nil
				}}),
			hook.Register("shape", hook.Hooks{
				BeforeRun: func(ctx hook.Context, in json.RawMessage) (hook.Before, error) {
					d.note(ctx, "before", in)
					return hook.Continue(map[string]int{"n": 2}), nil
				},
				AfterRun: func(ctx hook.Context, _ json.RawMessage) (hook.After, error) {
					d.note(ctx, "after", ctx.Input)
					return hook.Replace("masked"), nil
				}}))...)
		pay := call("pay")
		pay.Args = json.RawMessage(`{"n":1}`)
		s.apply(hooked(clerk("clerk", turn("", pay), turn(`{{ index .results.tool_pay }}`)),
			agent.Hooks{BeforeRun: named("greet"), AfterRun: named("greet")}, agent.Hooks{BeforeRun: named("shape"), AfterRun: named("shape")}))
		s.Orchestrator()
		if err := s.Request(crumbs.RunRequest{AgentID: "clerk", RunID: "run_1", Input: json.RawMessage(`"go"`)}); err != nil {
			t.Fatal(err)
		}
		s.WaitEnd("run_1")

		account(t, s.Fleet, "run_1").completed("Bye.")
		want := []string{`run_1.0.h1 agent before "go"`, `run_1.1.0h1 tool before {"n":1}`, `run_1.1.0h2 tool after {"n":2}`, `run_1.2.h2 agent after "masked"`}
		if got := d.read(); !slices.Equal(got, want) {
			t.Errorf("hooks were called:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for _, c := range s.Crumbs("run_1") {
			switch body := string(c.Body); c.Base.Type {
			case crumbs.TypeRunStarted:
				if !strings.Contains(body, `"input":"hello"`) {
					t.Errorf("agent:run:start does not show what beforeRun left: %s", body)
				}
			case crumbs.TypeToolCalled:
				if !strings.Contains(body, `"args":{"n":2}`) {
					t.Errorf("tool:call does not show the arguments that run: %s", body)
				}
			case crumbs.TypeToolResulted:
				if strings.Contains(body, "masked") {
					t.Errorf("tool:result does not show what the tool said: %s", body)
				}
			}
		}
		s.want(t, "run_1", "1.0:1")
	})
}

// Whatever point the orchestrator dies at, a run with hooks at every point goes on:
// each tool runs once, and what a hook said first counts (F094).
func TestHook_CrashAtEveryPoint_F094(t *testing.T) {
	for _, point := range orchestrator.Points() {
		t.Run(string(point), func(t *testing.T) {
			bubble(t, func(t *testing.T, s scene) {
				s.Gateway()
				s.Approvals()
				s.Tools(groupBench, append(s.counted(), hook.Register("watch", hook.Hooks{
					BeforeRun: func(hook.Context, json.RawMessage) (hook.Before, error) { return hook.Before{}, nil },
					AfterRun:  func(hook.Context, json.RawMessage) (hook.After, error) { return hook.After{}, nil },
					OnSuspend: func(hook.Context) error { return nil },
				}))...)
				s.apply(hooked(asking(clerk("clerk", turn("Looking.", call("put"), call("pay")), turn("Done.")), "pay"),
					agent.Hooks{BeforeRun: named("watch"), AfterRun: named("watch"), OnSuspend: named("watch")},
					agent.Hooks{BeforeRun: named("watch"), AfterRun: named("watch")}))
				replica := s.Trapped()
				for n := int64(1); ; n++ {
					survivor := s.crash(replica, point, n)
					if survivor == replica {
						break
					}
					replica = survivor
				}
			})
		})
	}
}

// A worker that dies in a hook: the hook runs again on another, and the tool it
// guards still runs once.
func TestHook_WorkerDies(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		entered := make(chan struct{}, 8)
		guard := func(stuck bool) tool.Tool {
			return hook.Register("guard", hook.Hooks{BeforeRun: func(ctx hook.Context, in json.RawMessage) (hook.Before, error) {
				if stuck {
					entered <- struct{}{}
					s.Park()
				}
				return hook.Before{}, nil
			}})
		}
		first := s.Worker(worker.Config{Group: groupBench}, append(s.counted(), guard(true))...)
		s.apply(hooked(clerk("clerk", turn("", call("pay")), turn("Done.")), agent.Hooks{}, agent.Hooks{BeforeRun: named("guard")}))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		<-entered
		first.Kill()
		s.Worker(worker.Config{Group: groupBench}, append(s.counted(), guard(false))...)
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.")
		s.want(t, "run_1", "1.0:1")
	})
}

// A retry that the tool's file asks for: attempts of one call, each with a claim of
// its own, and an approved call may be repeated without another question (CF-R01).
func TestRetry_AttemptsOfOneCall_CF_R01(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		const fails = 2
		s.Tools(groupBench, s.doing("pay", crumbs.EffectOnce, func(_ tool.Context, nth int) error {
			if nth <= fails {
				return errors.New("the bank is busy")
			}
			return nil
		}))
		d := asking(clerk("clerk", turn("", call("pay")), turn("Done.")), "pay")
		d.Tools[0].ErrorHandling.Retry = &agent.Retry{Attempts: 3, BackoffMs: 60_000, BackoffMultiplier: 2}
		s.apply(d)
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitSuspended("run_1")
		if _, err := s.Approve("run_1.1.0"); err != nil {
			t.Fatal(err)
		}
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.")
		s.want(t, "run_1", "1.0:3")
		for _, c := range s.Crumbs("run_1") {
			if c.Base.Type == crumbs.TypeToolResulted && !strings.Contains(string(c.Body), `"attempt":3`) {
				t.Errorf("tool:result does not name its attempt: %s", c.Body)
			}
			if c.Base.Type == crumbs.TypeToolErrored {
				t.Errorf("an attempt that was repeated left a crumb: %s", c.Body)
			}
		}
	})
}

// A required guard that fails lets nothing run; an advisory one is told and passed
// over (F089, F090).
func TestHook_GuardFails_F089_F090(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Tools(groupBench, append(s.counted(), hook.Register("guard", hook.Hooks{BeforeRun: func(hook.Context, json.RawMessage) (hook.Before, error) {
			return hook.Before{}, fault.New(fault.ToolDenied, "not on Sundays")
		}}))...)
		advisory := named("guard")
		advisory[0].Advisory = true
		s.apply(hooked(clerk("strict", turn("", call("pay")), turn("Done.")), agent.Hooks{}, agent.Hooks{BeforeRun: named("guard")}),
			hooked(clerk("lax", turn("", call("pay")), turn("Done.")), agent.Hooks{}, agent.Hooks{BeforeRun: advisory}))
		s.Orchestrator()
		for agentID, runs := range map[crumbs.AgentID]string{"strict": "", "lax": "1.0:1"} {
			run := crumbs.RunID("run_" + agentID)
			s.Start(agentID, run)
			s.WaitEnd(run)
			s.want(t, run, runs)
			told := slices.ContainsFunc(s.Crumbs(run), func(c stored) bool {
				return c.Base.Type == crumbs.TypeHookErrored && strings.Contains(string(c.Body), "not on Sundays")
			})
			if !told {
				t.Errorf("%s: no hook:error tells why the guard failed", run)
			}
		}
	})
}
