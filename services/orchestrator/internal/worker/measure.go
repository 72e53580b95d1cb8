package worker

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry/instrument"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// agentUnknown stands for agents that nobody applied: their names are whatever a
// client wrote.
const agentUnknown = "_unknown"

// How a call or an attempt ended that nobody reported about.
const (
	outcomeLost      = "lost"      // its deadline passed
	outcomeGivenUp   = "given_up"  // an order or a cancel ended it
	outcomeExpired   = "expired"   // a question nobody answered in time
	outcomeWithdrawn = "withdrawn" // a question whose run ended
)

// microsOfUnit is how many millionths a Cost has of a whole unit.
const microsOfUnit = 1e6

// measured is what the loop measures. Each decision is counted by whoever won its
// compare-and-set, so that a fleet of replicas counts it once.
type measured struct {
	started, ended, blocked, tokens, cost        *instrument.Counter
	decisions, conflicts, failures, helped, late *instrument.Counter
	queueFull                                    *instrument.Counter
	runTook, stepTook, callTook, personTook      *instrument.Values
}

func newMeasured(m metric.Meter) *measured {
	count := func(name string) *instrument.Counter { return instrument.NewCounter(m, name) }
	values := func(name string) *instrument.Values { return instrument.NewHistogram(m, name) }
	return &measured{
		started: count(instrument.RunsStarted), ended: count(instrument.RunsEnded), blocked: count(instrument.CallsBlocked),
		tokens: count(instrument.Tokens), cost: count(instrument.Cost), decisions: count(instrument.Decisions),
		conflicts: count(instrument.Conflicts), failures: count(instrument.DecisionsFault), helped: count(instrument.Helped),
		late: count(instrument.ResultsLate), queueFull: count(instrument.QueueFull),
		runTook: values(instrument.RunDuration), stepTook: values(instrument.StepDuration), callTook: values(instrument.CallDuration),
		personTook: values(instrument.ApprovalWait),
	}
}

// decided measures a decision that is on record: what was before, and what is.
func (m *measured) decided(ctx context.Context, e core.Event, before, after core.State) {
	m.decisions.Add(ctx, 1, string(e.Kind))
	agent, now := agentOf(after), e.At
	if !after.Run.Tombstone && (!before.Exists() || before.Run.Tombstone) {
		m.started.Add(ctx, 1, agent)
	}
	if b := before.Model; b != nil && (after.Model == nil || after.Model.ID != b.ID || after.Model.Attempt != b.Attempt) {
		m.stepTook.Record(ctx, since(b.SentAt, now), agent, modelOutcome(e))
	}
	if e.Kind == core.ModelResult {
		m.spent(ctx, agent, e.Model)
	}
	for _, c := range before.Calls {
		m.call(ctx, e, c, after, now)
	}
	for _, c := range after.Outbox.Crumbs {
		if c.Type == crumbs.TypeToolBlocked {
			m.blocked.Add(ctx, 1, agent)
		}
	}
	if after.Status.Ended() && !before.Status.Ended() && !after.Run.Tombstone {
		m.ended.Add(ctx, 1, agent, string(after.Status), endCode(after))
		m.runTook.Record(ctx, since(after.Run.StartedAt, after.Run.EndedAt), agent, string(after.Status))
	}
}

// call measures what ended of a call.
func (m *measured) call(ctx context.Context, e core.Event, b core.Call, after core.State, now crumbs.Time) {
	a, there := core.Call{Phase: core.Settled}, false
	for _, c := range after.Calls {
		if c.ID == b.ID {
			a, there = c, true
		}
	}
	switch {
	case b.Phase == core.Dispatched && (a.Phase != core.Dispatched || a.Attempt != b.Attempt):
		outcome := outcomeGivenUp
		switch {
		case e.Kind == core.CallResult && e.Result.CallID == b.ID:
			outcome = e.Result.Status
		case there && a.Phase == core.Settled && a.Outcome != "":
			outcome = string(a.Outcome)
		case e.Kind == core.TimerDue:
			outcome = outcomeLost
		}
		m.callTook.Record(ctx, since(b.SentAt, now), b.Leaf, outcome)
	case b.Phase == core.Asking && a.Phase != core.Asking:
		outcome := outcomeWithdrawn
		switch {
		case e.Kind == core.Decided && e.Decision.CheckpointID == b.ID:
			outcome = e.Decision.Outcome
		case e.Kind == core.TimerDue && !now.Before(b.Question.ExpiresAt.Time):
			outcome = outcomeExpired
		}
		m.personTook.Record(ctx, since(b.Question.AskedAt, now), b.Question.Kind, outcome)
	}
}

// spent counts what a model attempt cost.
func (m *measured) spent(ctx context.Context, agent string, r *crumbs.ModelResult) {
	provider, model := r.Model.Provider, r.Model.Model
	if u := r.Usage; u != nil {
		for _, t := range []struct {
			kind string
			n    int64
		}{{"input", u.InputTokens}, {"output", u.OutputTokens}, {"cache_read", u.CacheReadTokens}, {"cache_write", u.CacheWriteTokens}, {"reasoning", u.ReasoningTokens}} {
			if t.n > 0 {
				m.tokens.Add(ctx, float64(t.n), agent, provider, model, t.kind)
			}
		}
	}
	if c := r.Cost; c != nil && c.Value > 0 {
		m.cost.Add(ctx, float64(c.Value)/microsOfUnit, agent, provider, model, c.Currency)
	}
}

func agentOf(s core.State) string {
	if r := s.Result; r != nil && r.Error != nil && r.Error.Code == fault.AgentNotFound && s.Run.Revision == "" {
		return agentUnknown
	}
	return string(s.Run.Agent)
}

func endCode(s core.State) string {
	if s.Result == nil || s.Result.Error == nil {
		return ""
	}
	return string(s.Result.Error.Code)
}

func modelOutcome(e core.Event) string {
	switch e.Kind {
	case core.ModelResult:
		return e.Model.Status
	case core.TimerDue:
		return outcomeLost
	}
	return outcomeGivenUp
}

// since is the time from one moment to another in seconds, not less than none.
func since(from, to crumbs.Time) float64 {
	if from.IsZero() {
		return 0
	}
	return max(0, to.Sub(from.Time)).Seconds()
}

// lateResult counts a result that came when its call was settled. The same one
// delivered again is not late: it was decided and its acknowledgement lost.
func (m *measured) lateResult(ctx context.Context, in *incoming) {
	if in.delivery.Count > 1 {
		return
	}
	switch in.kind {
	case core.ModelResult, core.CallResult:
		m.late.Add(ctx, 1, string(in.kind))
	}
}

// replaced counts a record that was replaced by a terminal one.
func (m *measured) replaced(ctx context.Context, after core.State) {
	m.failures.Add(ctx, 1, string(core.Broken))
	m.ended.Add(ctx, 1, agentOf(after), string(after.Status), endCode(after))
}
