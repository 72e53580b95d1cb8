package claim

import "fmt"

// action says what happened in a Step.
type action int8

const (
	republished action = iota
	claimExpired
	clockMoved
	requestExpired
	tookClaim
	decided
	decidedResult
	graceOver
	received
	crashed
	mayStart
	looksStale
	droppedRevoked
	droppedSecond
	droppedLate
	nakedHolderLives
	publishedResult
	claims
	claimsAnswerLost
	takesOver
	takesOverAnswerLost
	answerLost
	claimChanged
	ownClaim
	notOwnClaim
	effect
	interrupted
	acknowledged
	ackLost
	entered
	gaveBack
	gaveBackAnswerLost
	gaveBackNotStored
	gaveBackInVain
	stopped
)

// Step is one line of a trace.
type Step struct {
	action   action
	worker   int8
	request  int8
	outcome  Outcome
	clock    clock
	settling settling
	cancel   bool
}

// String renders the step. Workers are W1 and W2; the orchestrator is O; what
// stands between dashes happens to the world. Request 2 is a second copy of the
// request under a sequence of its own.
func (s Step) String() string {
	switch s.action {
	case republished:
		return "-- the request is stored again, as request 2 --"
	case claimExpired:
		return "-- the claim expires --"
	case requestExpired:
		return fmt.Sprintf("-- request %d leaves the queue by its Nats-TTL --", s.request+1)
	case clockMoved:
		return [...]string{"", "-- startBefore passes --", "-- the deadline of the call passes --", "-- claims of this age have expired --"}[s.clock]
	case tookClaim, decided, decidedResult, graceOver:
		return "O " + s.ofOrchestrator()
	default:
		return fmt.Sprintf("W%d %s", s.worker+1, s.ofWorker())
	}
}

func (s Step) ofOrchestrator() string {
	cause := "deadline"
	if s.cancel {
		cause = "cancel"
	}
	switch s.action {
	case tookClaim:
		found := "never started"
		if s.settling == foundOnItsWay {
			found = "taken for started"
		}
		return fmt.Sprintf("%s: revokes the claim; the call is %s", cause, found)
	case graceOver:
		return fmt.Sprintf("the grace is over: decides %s", s.outcome)
	case decidedResult:
		return fmt.Sprintf("decides the result %s", s.outcome)
	default:
		return fmt.Sprintf("%s: decides %s", cause, s.outcome)
	}
}

func (s Step) ofWorker() string {
	switch s.action {
	case received:
		return fmt.Sprintf("receives request %d", s.request+1)
	case crashed:
		return "crashes"
	case mayStart:
		return "finds that it may start"
	case looksStale:
		return "finds no claim (stale), so it may start"
	case droppedRevoked:
		return "finds the claim revoked: acks"
	case droppedSecond:
		return "finds the claim of another request: acks"
	case droppedLate:
		return "is past startBefore: acks"
	case nakedHolderLives:
		return "finds the holder present: naks"
	case publishedResult:
		return fmt.Sprintf("publishes %s", s.outcome)
	case claims:
		return "claims"
	case claimsAnswerLost:
		return "claims, the answer is lost"
	case takesOver:
		return "takes the claim over"
	case takesOverAnswerLost:
		return "takes the claim over, the answer is lost"
	case answerLost:
		return "fails to claim, the answer is lost"
	case claimChanged:
		return "finds the claim changed: looks again"
	case ownClaim:
		return "reads the claim back and takes it for its own"
	case notOwnClaim:
		return "reads the claim back, it is not its own: looks again"
	case entered:
		return "starts the handler"
	case gaveBack:
		return "stops: gives the claim back, naks"
	case gaveBackAnswerLost:
		return "stops: gives the claim back, the answer is lost; naks"
	case gaveBackNotStored:
		return "stops: fails to give the claim back; naks"
	case gaveBackInVain:
		return fmt.Sprintf("stops: finds the claim revoked, publishes %s", s.outcome)
	case stopped:
		return "stops before it has claimed: naks"
	case effect:
		return "EFFECT"
	case interrupted:
		return fmt.Sprintf("interrupts the handler, publishes %s", s.outcome)
	case acknowledged:
		return fmt.Sprintf("acks request %d", s.request+1)
	case ackLost:
		return fmt.Sprintf("acks request %d, the ack is lost", s.request+1)
	default:
		panic(fmt.Sprintf("claim: action %d has no words", s.action))
	}
}

// String returns the outcome's word on the wire; `lost` is TOOL_LOST.
func (o Outcome) String() string {
	return [...]string{"pending", "ok", "unknown", "lost", "cancelled"}[o]
}
