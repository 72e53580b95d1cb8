package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Kind of a violation.
type Kind string

// What can be broken (docs/protocol.md, the promises).
const (
	CrumbTwice       Kind = "crumb-twice"
	CrumbOrder       Kind = "crumb-order" // a hole, or a crumb before its turn
	Hang             Kind = "hang"
	Outcomes         Kind = "outcomes" // a call with none, or several
	OnceTwice        Kind = "once-twice"
	LostDecision     Kind = "lost-decision"
	LostCancel       Kind = "lost-cancel"
	StartAfterCancel Kind = "start-after-cancel"
	Dishonest        Kind = "dishonest" // cancelled or lost, and its effect happened
	FalseUnknown     Kind = "false-unknown"
	FalseLost        Kind = "false-lost"
	Neglected        Kind = "neglected" // given up, while whoever should do it waited for it
	UnknownOverOK    Kind = "unknown-over-ok"
	PaidTwice        Kind = "paid-twice"
)

// Violation is a rule that was broken.
type Violation struct {
	Kind Kind
	Run  crumbs.RunID
	What string
}

func (v Violation) String() string { return fmt.Sprintf("%s %s: %s", v.Kind, v.Run, v.What) }

// cancelMargin is how long a cancel may take to be decided: the longest outage.
const cancelMargin = 10 * time.Minute

// audit collects the violations of one run.
type audit struct {
	*world
	run      crumbs.RunID
	crumbs   []sighted
	terminal *sighted
	found    []Violation
}

func (w *world) check() []Violation {
	var found []Violation
	for _, id := range slices.Sorted(maps.Keys(w.seen.requested)) {
		a := &audit{world: w, run: id, crumbs: w.seen.crumbs[id]}
		a.order()
		a.ends()
		a.outcomes()
		a.cancel()
		found = append(found, a.found...)
	}
	for _, key := range slices.Sorted(maps.Keys(w.seen.effects)) {
		if call := callOf(key); w.seen.effect[call] == crumbs.EffectOnce && len(w.seen.effects[key]) > 1 {
			found = append(found, Violation{OnceTwice, call.Run(), fmt.Sprintf("%s: %v", key, w.seen.effects[key])})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(w.seen.paid)) {
		if n := w.seen.paid[key]; n > 1 {
			found = append(found, Violation{PaidTwice, callOf(key).Run(), fmt.Sprintf("%s: %d times", key, n)})
		}
	}
	return found
}

// callOf is the call of `<call>.<attempt>`.
func callOf(key string) crumbs.CallID {
	for i := len(key) - 1; i >= 0; i-- {
		if key[i] == '.' {
			return crumbs.CallID(key[:i])
		}
	}
	return crumbs.CallID(key)
}

func (a *audit) add(kind Kind, format string, args ...any) {
	a.found = append(a.found, Violation{kind, a.run, fmt.Sprintf(format, args...)})
}

// order: 1, 2, 3 …, each once, the terminal one last.
func (a *audit) order() {
	seen, next := map[uint64]bool{}, uint64(1)
	for i, c := range a.crumbs {
		switch {
		case seen[c.Seq]:
			a.add(CrumbTwice, "crumb %d %s again", c.Seq, c.Type)
		case c.Seq != next:
			a.add(CrumbOrder, "crumb %d %s where %d was next", c.Seq, c.Type, next)
		case a.terminal != nil:
			a.add(CrumbOrder, "crumb %d %s after the terminal one", c.Seq, c.Type)
		}
		seen[c.Seq], next = true, max(next, c.Seq+1)
		if crumbs.Terminal(c.Type) {
			a.terminal = &a.crumbs[i]
		}
	}
}

func (a *audit) ends() {
	if a.terminal == nil {
		s := a.runs.read(string(a.run)).v
		a.add(Hang, "status %q, step %d, model %+v, retry %+v, timer %+v, intents %+v, calls %v", s.Status, s.Step, s.Model, s.Retry, s.Timer, s.Outbox.Intents, s.Calls)
	}
}

// outcomes: one for each call, and an honest one.
func (a *audit) outcomes() {
	counts, asked := map[crumbs.CallID]int{}, map[crumbs.CallID]sighted{}
	for _, c := range a.crumbs {
		switch c.Type {
		case crumbs.TypeHumanRequired:
			asked[c.ToolCallID] = c
			counts[c.ToolCallID] += 0
		case crumbs.TypeToolCalled:
			counts[c.ToolCallID] += 0
		case crumbs.TypeToolResulted:
			counts[c.ToolCallID]++
		case crumbs.TypeToolErrored:
			counts[c.ToolCallID]++
			a.honest(c)
		case crumbs.TypeStepEnd:
			key := crumbs.ModelCallID(a.run, c.Step).Attempt(c.Attempt)
			if c.Error != nil && c.Error.Code == string(fault.ModelTimeout) && a.neglected(key) {
				a.add(Neglected, "a model call timed out, and all gateways were there")
			}
		case crumbs.TypeHumanResumed:
			if c.Outcome != crumbs.ResumedApproved && c.Outcome != crumbs.ResumedEdited {
				counts[c.ToolCallID]++
			}
			if at, ok := a.seen.decided[c.ToolCallID]; ok && c.Outcome == crumbs.ResumedExpired && at < asked[c.ToolCallID].at+questionTime-time.Minute {
				a.add(LostDecision, "%s was answered at %s and expired", c.ToolCallID, at)
			}
		}
	}
	if a.terminal == nil {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[id]; n != 1 {
			a.add(Outcomes, "%s has %d outcomes", id, n)
		}
	}
}

// honest holds an outcome that no result gave against what happened.
func (a *audit) honest(c sighted) {
	key := c.ToolCallID.Attempt(1)
	holder, happened := a.seen.holders[key], len(a.seen.effects[key]) > 0
	_, hurt := a.gone[holder]
	innocent := holder != "" && !hurt && !a.seen.stopped[key]
	once := a.seen.effect[c.ToolCallID] == crumbs.EffectOnce
	lost := c.Error != nil && c.Error.Code == string(fault.ToolLost)
	switch {
	case once && happened && (lost || c.Outcome == string(crumbs.OutcomeCancelled)):
		a.add(Dishonest, "%s is %s and its effect happened", c.ToolCallID, c.Outcome)
	case lost && holder == "" && a.neglected(key):
		a.add(Neglected, "%s is lost, nobody was asked and all workers were there", c.ToolCallID)
	case lost && innocent:
		a.add(FalseLost, "%s is lost, its worker %s never crashed nor paused", c.ToolCallID, holder)
	case c.Outcome != string(crumbs.OutcomeUnknown):
	case innocent && !a.wasCancelled():
		a.add(FalseUnknown, "%s is unknown, its worker %s never crashed nor paused", c.ToolCallID, holder)
	}
	if ok, stored := a.seen.okStored[key]; stored && c.Outcome == string(crumbs.OutcomeUnknown) && a.clock.at(ok).UnixMilli() < c.Timestamp {
		a.add(UnknownOverOK, "%s is unknown, its result was stored at %s", c.ToolCallID, ok)
	}
}

// neglected reports whether an attempt that nobody took had no reason for that:
// workers and gateways were there all the time, the network lost nothing, and who
// began the attempt lived long enough to send it.
func (a *audit) neglected(key string) bool {
	began := a.seen.decisions[key]
	if gone, crashed := a.gone[began.by]; crashed && gone-began.at < requestTimeout {
		return false
	}
	for _, p := range a.processes {
		if _, gone := a.gone[p.id()]; (gone || p.incarnation > 1) && !strings.HasPrefix(p.name, orchestratorName) {
			return false
		}
	}
	f := a.cfg.Faults
	return !f.Dead && !f.Full && f.Loss == 0
}

func (a *audit) wasCancelled() bool {
	return a.terminal != nil && a.terminal.Error != nil && a.terminal.Error.Code == string(fault.RunCancelled)
}

// cancel: not lost, and nothing starts after it.
func (a *audit) cancel() {
	at, asked := a.seen.cancelled[a.run]
	if asked && a.terminal != nil && !a.wasCancelled() && a.terminal.at > at+a.margin() {
		a.add(LostCancel, "the cancel was stored at %s, the run completed at %s", at, a.terminal.at)
	}
	if !a.wasCancelled() {
		return
	}
	settled := map[crumbs.CallID]bool{}
	for _, c := range a.crumbs {
		if c.Type == crumbs.TypeToolResulted || c.Type == crumbs.TypeToolErrored && c.Outcome != string(crumbs.OutcomeCancelled) {
			settled[c.ToolCallID] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(a.seen.starts)) {
		call := callOf(key)
		if call.Run() != a.run || settled[call] && a.seen.effect[call] != crumbs.EffectOnce {
			continue
		}
		for _, s := range a.seen.starts[key] {
			if s.at > a.terminal.at {
				a.add(StartAfterCancel, "%s started at %s by %s, cancelled at %s", key, s.at, s.by, a.terminal.at)
			}
		}
	}
}

// margin: where nothing is down for long a cancel is decided soon.
func (a *audit) margin() time.Duration {
	f := a.cfg.Faults
	if f.LongDown > 0 || f.AllDown || f.Pause > 0 || f.Late > 0 {
		return cancelMargin
	}
	return time.Minute
}
