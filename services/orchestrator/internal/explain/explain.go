package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// Attempt is what is known of an attempt of a call beside the run's record.
type Attempt struct {
	Started  bool        // its claim says so
	At       crumbs.Time // of its last start, by the worker's clock
	Revoked  bool
	Starts   int
	Worker   string
	Alive    bool // the worker is present
	Message  bool // its command is stored
	HandedTo bool // … and was handed to a worker
	Result   bool // its result waits in INBOX
}

// Queue is what is known of a group or provider.
type Queue struct {
	Missing bool // it has no consumer
	Workers int
	Pending int64
}

// Facts are what an explanation is made from.
type Facts struct {
	State      core.State
	Definition *agent.Definition // nil when it cannot be read
	Tools      *agent.ToolSet    // nil when there is none
	View       crumbs.RunView
	Now        time.Time
	Timing     core.Timing        // of the orchestrator that answers
	Attempts   map[string]Attempt // by `<call>.<attempt>`
	Groups     map[string]Queue
	Providers  map[string]Queue
	Decided    map[crumbs.CheckpointID]crumbs.RunDecided // what was answered and not applied
	Signer     decision.Signer                           // whose key signs; zero when that is not known
	Last       *crumbs.RunLastError
	Unsent     int
	Full       map[string]Full // streams of calls that take no more, by name
}

// Full is a stream that refuses with QUEUE_FULL.
type Full struct {
	Bytes, Limit int64
	Messages     uint64
	Last         time.Time // it took a message
}

// Run explains.
func Run(f Facts) crumbs.RunExplained {
	s := f.State
	x := crumbs.RunExplained{Run: f.View, At: crumbs.At(f.Now), WaitsFor: []crumbs.RunWait{}, Last: f.Last, Unsent: f.Unsent,
		Limits:  crumbs.RunLimits{Steps: s.Step, StepsMax: s.Run.MaxSteps, DeadlineAt: s.Run.DeadlineAt},
		ToolSet: s.Run.ToolSet, Tools: f.tools(), TraceID: s.Run.Trace.TraceID}
	if !s.Status.Ended() {
		x.WaitsFor = f.waits()
		if at := s.Timer.At; !at.IsZero() {
			x.Timer = &at
		}
	}
	x.Advice, x.Command = f.sum(x.WaitsFor)
	return x
}

// sum is what to do about the run: what to do about the wait that a person can
// shorten most.
func (f Facts) sum(waits []crumbs.RunWait) (advice, command string) {
	s := f.State
	switch {
	case s.Status == core.Completed:
		return fmt.Sprintf("it completed after %d steps; nothing is left to do", s.Step), ""
	case s.Status.Ended():
		if r := s.Result; r != nil && r.Error != nil {
			return fmt.Sprintf("it ended as %s with %s: %s; it does not go on: start another run under another id", s.Status, r.Error.Code, r.Error.Message), "crumb watch " + string(s.Run.ID)
		}
		return fmt.Sprintf("it ended as %s; it does not go on", s.Status), ""
	case f.Unsent > 0 && len(waits) == 0:
		return "what it decided is not all sent; the next message of the run sends it, whichever replica takes that", "crumb doctor"
	case len(waits) == 0:
		return "it waits for nothing that its record knows of; the next message of the run moves it", "crumb doctor"
	}
	first := slices.MinFunc(waits, func(a, b crumbs.RunWait) int { return cmp.Compare(urgency(a), urgency(b)) })
	return first.Advice, first.Command
}

// urgency orders waits: what nobody works on before what somebody does.
func urgency(w crumbs.RunWait) int {
	switch {
	case w.Place == crumbs.PlaceNowhere, w.Place == crumbs.PlaceOrphan, w.Place == crumbs.PlaceFull, w.Decided != nil && w.Decided.Refused != "":
		return 0
	case w.Place == crumbs.PlaceQueue && w.Workers == 0:
		return 1
	case w.Kind == crumbs.WaitPerson && w.Decided == nil:
		return 2
	case w.Place == crumbs.PlaceQueue:
		return 3
	}
	return 4
}

func (f Facts) waits() []crumbs.RunWait {
	out := []crumbs.RunWait{}
	s := f.State
	if m := s.Model; m != nil {
		out = append(out, f.model(m))
	}
	if r := s.Retry; r != nil {
		out = append(out, crumbs.RunWait{Kind: crumbs.WaitRetry, What: f.modelName(), Attempt: r.Attempt, Since: f.lastAt(), Until: r.At,
			Advice: fmt.Sprintf("attempt %d of the model call is due in %s, as errorHandling.retry of the agent says", r.Attempt, span(r.At.Sub(f.Now)))})
	}
	for _, c := range s.Calls {
		switch c.Phase {
		case core.Asking:
			out = append(out, f.person(c))
		case core.Dispatched:
			out = append(out, f.call(c))
		case core.Waiting:
			out = append(out, f.again(c))
		}
	}
	for _, m := range core.Missions(core.Pinned{Tools: f.Tools}, s) {
		out = append(out, f.errand(m))
	}
	return out
}

// failureMax is how much is told of why an attempt failed, in characters.
const failureMax = 300

// again is the wait for the next attempt of a call.
func (f Facts) again(c core.Call) crumbs.RunWait {
	e := c.Failed.Error
	return crumbs.RunWait{Kind: crumbs.WaitRetry, What: c.Leaf, CallID: c.ID, Attempt: c.Attempt + 1, Since: c.SentAt, Until: c.RetryAt,
		Advice: fmt.Sprintf("%s is due in %s, as errorHandling.retry of the tool says; the last one failed with %s: %.*s",
			named(c.ID, c.Attempt+1, c.Leaf), span(c.RetryAt.Sub(f.Now)), e.Code, failureMax, e.Message)}
}

// named is an attempt of a call, of the first one the call alone.
func named(call crumbs.CallID, attempt int, what string) string {
	if attempt > 1 {
		return fmt.Sprintf("attempt %d of call %s (%s)", attempt, call, what)
	}
	return fmt.Sprintf("call %s (%s)", call, what)
}

// errand is the wait for a hook or a parser.
func (f Facts) errand(m core.Mission) crumbs.RunWait {
	w := crumbs.RunWait{Kind: crumbs.WaitHook, What: m.What, CallID: m.ID, Attempt: m.Attempt, Since: m.SentAt, Until: m.Deadline, StartBefore: m.StartBefore, Queue: m.Program.Group}
	if m.Parse {
		w.Kind = crumbs.WaitParse
	}
	if !m.RetryAt.IsZero() {
		w.Attempt, w.Until = m.Attempt+1, m.RetryAt
		w.Advice = fmt.Sprintf("attempt %d of the hook %s is due in %s, as its own retry says", w.Attempt, m.What, span(m.RetryAt.Sub(f.Now)))
		return w
	}
	start := fmt.Sprintf("crumb toolexec --group %s --dir DIR", w.Queue)
	if !agent.OfProject(m.Program.Handler) {
		start = "start your worker of group " + w.Queue
	}
	f.place(&w, f.Groups[w.Queue], timeout(m.Program.TimeoutMs), "group", start)
	return w
}

func timeout(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// lastAt is when a wait began that has no time of its own.
func (f Facts) lastAt() crumbs.Time {
	if f.Last != nil {
		return f.Last.At
	}
	return f.State.Run.StartedAt
}

func (f Facts) modelName() string {
	if f.Definition == nil {
		return "the model"
	}
	return f.Definition.Model.Provider + "/" + f.Definition.Model.Model
}

func (f Facts) model(m *core.ModelCall) crumbs.RunWait {
	w := crumbs.RunWait{Kind: crumbs.WaitModel, What: f.modelName(), CallID: m.ID, Attempt: m.Attempt, Since: m.SentAt, Until: m.Deadline, StartBefore: m.StartBefore}
	if f.Definition != nil {
		w.Queue = f.Definition.Queue()
	}
	start := fmt.Sprintf("crumb modelgw --provider %s", w.Queue)
	f.place(&w, f.Providers[w.Queue], 0, "provider", start) // a gateway has until the deadline
	return w
}

func (f Facts) call(c core.Call) crumbs.RunWait {
	w := crumbs.RunWait{Kind: crumbs.WaitTool, What: c.Leaf, CallID: c.ID, Attempt: c.Attempt, Since: c.SentAt, Until: c.Deadline, StartBefore: c.StartBefore}
	limit := f.Timing.ToolTimeout
	if e := f.entry(c.Leaf); e != nil {
		w.Queue = e.Group
		if e.TimeoutMs > 0 {
			limit = timeout(e.TimeoutMs)
		}
	}
	if !c.Grace.IsZero() {
		w.Kind, w.Until = crumbs.WaitStop, c.Grace
		w.Advice = fmt.Sprintf("%s was asked to stop and has until %s to report", named(c.ID, c.Attempt, c.Leaf), clock(c.Grace))
		a := f.Attempts[c.ID.Attempt(c.Attempt)]
		w.Worker, w.Starts = a.Worker, a.Starts
		return w
	}
	start := fmt.Sprintf("crumb toolexec --group %s --dir DIR", w.Queue)
	if e := f.entry(c.Leaf); e != nil && !agent.OfProject(e.Handler) {
		start = "start your worker of group " + w.Queue
	}
	f.place(&w, f.Groups[w.Queue], limit, "group", start)
	return w
}

// until is when an attempt that runs ends by itself: limit after its start, or at its
// deadline. 0 is no limit.
func until(started, deadline crumbs.Time, limit time.Duration) crumbs.Time {
	if end := started.Add(limit); limit > 0 && end.Before(deadline.Time) {
		return end
	}
	return deadline
}

// place says where an attempt is and what that asks for; limit is how long it may run.
func (f Facts) place(w *crumbs.RunWait, q Queue, limit time.Duration, kind, start string) {
	a := f.Attempts[w.CallID.Attempt(w.Attempt)]
	w.Workers, w.Pending, w.Worker, w.Starts = q.Workers, q.Pending, a.Worker, a.Starts
	waited := span(f.Now.Sub(w.Since.Time))
	call := named(w.CallID, w.Attempt, w.What)
	full, refused := f.Full[streamOf(w)]
	switch {
	case a.Result:
		w.Place = crumbs.PlaceResult
		w.Advice, w.Command = call+" is done, its result waits for the orchestrator", "crumb doctor"
	case a.Started && a.Alive:
		w.Place, w.Until = crumbs.PlaceRunning, until(a.At, w.Until, limit)
		w.Advice = fmt.Sprintf("%s runs on %s for %s%s; it ends by itself at %s", call, w.Worker, span(f.Now.Sub(a.At.Time)), restarted(a.Starts), clock(w.Until))
	case a.Started:
		w.Place = crumbs.PlaceOrphan
		w.Advice = fmt.Sprintf("%s was started on %s, which is gone%s; the next worker of %s %s that takes its message decides by its effect", call, w.Worker, restarted(a.Starts), kind, w.Queue)
		if q.Workers == 0 {
			w.Advice, w.Command = w.Advice+", and none is present: start one", start
		}
	case q.Missing:
		w.Place = crumbs.PlaceNowhere
		w.Advice, w.Command = fmt.Sprintf("%s is for %s %s, which has no queue any more: make it", call, kind, w.Queue), fmt.Sprintf("crumb init --%s %s", kind, w.Queue)
	case a.Message && a.HandedTo && q.Workers > 0:
		w.Place = crumbs.PlaceHand
		w.Advice = fmt.Sprintf("%s is in the hand of a worker of %s %s and has not started; it may wait for another version of its tool", call, kind, w.Queue)
	case a.Message && q.Workers == 0:
		w.Place = crumbs.PlaceQueue
		w.Advice, w.Command = fmt.Sprintf("%s waits in %s %s for %s: no worker is alive: start one before %s", call, kind, w.Queue, waited, clock(w.StartBefore)), start
	case a.Message:
		w.Place = crumbs.PlaceQueue
		w.Advice = fmt.Sprintf("%s waits in %s %s for %s, with %d messages waiting for %d workers: start more workers if that is too long", call, kind, w.Queue, waited, q.Pending, q.Workers)
		w.Command = start
	case refused:
		w.Place = crumbs.PlaceFull
		w.Advice, w.Command = unsent(w, q, full, kind, start)
	default:
		w.Place = crumbs.PlaceNowhere
		w.Advice = fmt.Sprintf("%s has neither a message in %s %s nor a start: it may be on its way; if not, its deadline ends it at %s", call, kind, w.Queue, clock(w.Until))
		w.Command = fmt.Sprintf("crumb dead redrive %s", w.CallID)
	}
}

// streamOf is the stream that the command of a call is put on.
func streamOf(w *crumbs.RunWait) string {
	if w.Kind == crumbs.WaitModel {
		return crumbs.StreamModelCalls
	}
	return crumbs.StreamToolCalls
}

// unsent is what to do about a call that its stream has no room for.
func unsent(w *crumbs.RunWait, q Queue, full Full, kind, start string) (advice, command string) {
	advice = fmt.Sprintf("QUEUE_FULL: %s is not sent since %s: stream %s is full with %s of %s in %d messages, the last of %s; with room again it is sent by itself, until %s",
		named(w.CallID, w.Attempt, w.What), clock(w.Since), streamOf(w), size(full.Bytes), size(full.Limit), full.Messages, clock(crumbs.At(full.Last)), clock(w.StartBefore))
	if q.Workers == 0 && q.Pending > 0 {
		return fmt.Sprintf("%s: %d messages are for %s %s, of which no worker is alive: start one", advice, q.Pending, kind, w.Queue), start
	}
	return advice + ": start more workers of the queue that is behind, or enlarge the stream with `crumb init --size standard`", "crumb doctor"
}

// restarted says how often an attempt was started, if that is worth saying.
func restarted(starts int) string {
	if starts < 2 {
		return ""
	}
	return fmt.Sprintf(" (start %d)", starts)
}

func (f Facts) person(c core.Call) crumbs.RunWait {
	w := crumbs.RunWait{Kind: crumbs.WaitPerson, What: c.Leaf, CallID: c.ID, Since: c.Question.AskedAt, Until: c.Question.ExpiresAt}
	if e := f.entry(c.Leaf); e != nil && e.Human != nil {
		w.Prompt = e.Human.Prompt
	}
	if d, ok := f.Decided[c.ID]; ok {
		w.Decided = &d
		w.Advice, w.Command = f.decided(c, d)
		return w
	}
	verb, command := "approve", "crumb approvals approve "+string(c.ID)
	if c.Question.Kind != crumbs.KindApproval {
		verb, command = "answer", "crumb approvals answer "+string(c.ID)+" VALUE"
	}
	w.Advice = fmt.Sprintf("%s waits for a person for %s, until %s: look at it with `crumb approvals show %s`, then %s or reject it", c.Leaf, span(f.Now.Sub(w.Since.Time)), clock(w.Until), c.ID, verb)
	w.Command = command
	return w
}

// decided says what becomes of an answer that the run has not applied.
func (f Facts) decided(c core.Call, d crumbs.RunDecided) (advice, command string) {
	said := fmt.Sprintf("%s was decided (%s, by %s of %s, %s ago)", c.Leaf, d.Outcome, d.By.Subject, d.By.Issuer, span(f.Now.Sub(d.At.Time)))
	run := f.State.Run.ID
	if d.Refused == "" {
		return said + ", and the answer is on its way to the run: an orchestrator takes it next", "crumb doctor"
	}
	command = "crumb dead list --run " + string(run)
	if !d.Untrusted {
		return fmt.Sprintf("%s, but what is recorded is not what key %s signed, so it is not applied: somebody changed or forged it. The question ends by itself at %s; or cancel the run with `crumb runs cancel %s`", said, d.KeyID, clock(c.Question.ExpiresAt), run), command
	}
	public := "in the log of the approvals service that was answered"
	if f.Signer.KeyID == d.KeyID {
		public = f.Signer.Public
	}
	return fmt.Sprintf("%s, signed with a key that nobody here trusts (kid %s), so it is not applied. If the key is yours, give its public key (%s) to every orchestrator and worker (--approvals-pubkey) and restart them, then give the same answer again or restart approvals. Else the question ends by itself at %s; or cancel the run with `crumb runs cancel %s`",
		said, d.KeyID, public, clock(c.Question.ExpiresAt), run), command
}

func (f Facts) entry(leaf string) *agent.Entry {
	if f.Tools == nil {
		return nil
	}
	e, ok := f.Tools.Lookup(leaf)
	if !ok {
		return nil
	}
	return e
}

// tools are those of the pinned set, then those of the definition that permissions
// kept out of it.
func (f Facts) tools() []crumbs.RunTool {
	out, in := []crumbs.RunTool{}, map[string]bool{}
	if f.Tools != nil {
		for _, e := range f.Tools.Entries {
			in[e.PermID] = true
			q := f.Groups[e.Group]
			out = append(out, crumbs.RunTool{Tool: e.PermID, Name: e.Leaf, Verdict: string(e.Verdict), Rule: e.Rule, List: listOf(e.Verdict, e.Rule),
				Group: e.Group, Workers: q.Workers, Pending: q.Pending, Effect: e.Effect})
		}
	}
	if f.Definition == nil {
		return out
	}
	policy, err := perm.Compile(f.Definition.Permissions)
	if err != nil {
		return out
	}
	for _, t := range f.Definition.Tools {
		id, err := perm.PermID(t.Origin())
		if err != nil || in[id] {
			continue
		}
		if d := policy.Decide(t.Origin()); !d.Permitted() {
			out = append(out, crumbs.RunTool{Tool: id, Verdict: string(d.Verdict), Rule: d.Rule, List: listOf(d.Verdict, d.Rule)})
		}
	}
	return out
}

// listOf is where the selector stands that decided.
func listOf(v perm.Verdict, rule string) string {
	if rule == "" {
		return ""
	}
	return "permissions." + string(v)
}

// span is a duration for people.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "no time"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Minute).String()
}

// size is an amount of bytes for people.
func size(bytes int64) string {
	if bytes < 10<<20 {
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}

func clock(t crumbs.Time) string { return t.UTC().Format(time.RFC3339) }
