package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// world is the mesh and what only the simulator sees of it.
type world struct {
	clock
	cfg       Config
	rng       *rand.Rand
	calm      bool // the faults are over
	pinned    core.Pinned
	processes []*process
	log       []string

	requests, inbox, timers, modelCalls, toolCalls, crumbs *stream

	runs   *bucket[core.State]
	claims *bucket[claim]
	blobs  map[string][]byte

	requestsC, eventsC, timersC, modelsC *consumer
	toolsC                               map[string]*consumer

	inHand map[crumbs.RunID][]*execution // calls in workers, for ctl.cancel
	seen   witness

	byID     map[string]*process      // by incarnation
	gone     map[string]time.Duration // incarnations that crashed or were paused, and when last
	troubles int                      // faults that happened
}

// witness remembers what the rules are checked against.
type witness struct {
	requested map[crumbs.RunID]bool
	cancelled map[crumbs.RunID]time.Duration // when a cancel was stored
	crumbs    map[crumbs.RunID][]sighted
	starts    map[string][]act // by attempt
	effects   map[string][]act
	decisions map[string]act    // that began an attempt
	holders   map[string]string // of an attempt: who took its claim last
	stopped   map[string]bool   // attempts whose handler was interrupted
	okStored  map[string]time.Duration
	decided   map[crumbs.CallID]time.Duration // first answer to a question stored
	paid      map[string]int                  // model attempts run without a crash between
	effect    map[crumbs.CallID]crumbs.Effect
}

// act is something a worker did.
type act struct {
	at time.Duration
	by string
}

// sighted is a stored crumb.
type sighted struct {
	at         time.Duration
	Seq        uint64        `json:"seq"`
	Step       int           `json:"step"`
	Attempt    int           `json:"attempt"`
	Timestamp  int64         `json:"timestamp"`
	Type       string        `json:"type"`
	ToolCallID crumbs.CallID `json:"toolCallId"`
	Outcome    string        `json:"outcome"`
	Kind       string        `json:"kind"`
	ArgsHash   string        `json:"argsHash"`
	ToolName   string        `json:"toolName"`
	Error      *struct {
		Code string `json:"code"`
	} `json:"error"`
}

func newWorld(cfg Config, pinned core.Pinned) *world {
	w := &world{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, cfg.Seed*7+1)), pinned: pinned, blobs: map[string][]byte{},
		toolsC: map[string]*consumer{}, inHand: map[crumbs.RunID][]*execution{}, byID: map[string]*process{}, gone: map[string]time.Duration{},
		seen: witness{requested: map[crumbs.RunID]bool{}, cancelled: map[crumbs.RunID]time.Duration{}, crumbs: map[crumbs.RunID][]sighted{},
			starts: map[string][]act{}, effects: map[string][]act{}, decisions: map[string]act{}, holders: map[string]string{}, stopped: map[string]bool{},
			okStored: map[string]time.Duration{}, decided: map[crumbs.CallID]time.Duration{}, paid: map[string]int{}, effect: map[crumbs.CallID]crumbs.Effect{}}}
	w.runs, w.claims = newBucket[core.State](w), newBucket[claim](w)
	w.requests, w.inbox = w.stream("REQUESTS", true, 0), w.stream("INBOX", true, 0)
	w.timers, w.crumbs = w.stream("TIMERS", false, 0), w.stream("CRUMBS", false, 0)
	w.modelCalls, w.toolCalls = w.stream("MODELCALLS", true, 0), w.stream("TOOLCALLS", true, 0)
	if cfg.Faults.Full {
		w.toolCalls.max = fullMessages
	}
	all := func(*message) bool { return true }
	w.requestsC, w.eventsC, w.timersC, w.modelsC = w.requests.consumer(all), w.inbox.consumer(all), w.timers.consumer(all), w.modelCalls.consumer(all)
	for _, g := range groups() {
		w.toolsC[g] = w.toolCalls.consumer(func(m *message) bool { return crumbs.Token(m.subject, 2) == g })
	}
	w.crumbs.stored = w.crumbStored
	w.inbox.stored = w.inboxStored
	return w
}

// fullMessages is all that a full TOOLCALLS holds.
const fullMessages = 3

func (w *world) chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

func (w *world) between(a, b time.Duration) time.Duration {
	return a + time.Duration(w.rng.Int64N(int64(b-a)+1))
}

func (w *world) logf(format string, args ...any) {
	if w.cfg.Trace {
		w.log = append(w.log, w.String()+" "+fmt.Sprintf(format, args...))
	}
}

// fate is a number that a name always has: what a model says, whether a person
// answers, which call is poison.
func fate(of ...any) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, of...) // a hash takes everything
	return h.Sum64()
}

func (w *world) inboxStored(m *message) {
	in, ok := m.body.(core.Event)
	if !ok {
		return
	}
	switch in.Kind {
	case core.CallResult:
		key := in.Result.CallID.Attempt(in.Result.Attempt)
		if _, known := w.seen.okStored[key]; !known && in.Result.Status == crumbs.StatusOK {
			w.seen.okStored[key] = w.now
		}
	case core.Decided:
		if _, known := w.seen.decided[in.Decision.CheckpointID]; !known {
			w.seen.decided[in.Decision.CheckpointID] = w.now
		}
	case core.Control:
		if _, known := w.seen.cancelled[in.Control.RunID]; !known {
			w.seen.cancelled[in.Control.RunID] = w.now
		}
	}
}
