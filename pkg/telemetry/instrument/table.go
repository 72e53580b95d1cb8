package instrument

import (
	"slices"
	"strings"
)

// Kind is how values of an instrument add up.
type Kind string

// The kinds.
const (
	Count     Kind = "counter"   // grows while the process lives
	Histogram Kind = "histogram" // values by size
	Gauge     Kind = "gauge"     // read when somebody asks
)

// Units as the OpenTelemetry conventions write them; one in braces is only said.
const (
	seconds = "s"
	bytes   = "By"
)

// Instrument is one row of the table.
type Instrument struct {
	Name    string // crumbmesh.runs.started
	Kind    Kind
	Unit    string // s, By, or what is counted: {run}
	Labels  []string
	By      string // who measures: a service, or every process
	Help    string
	Buckets []float64 // upper bounds of a histogram
}

// Who measures.
const (
	byEvery        = "every service"
	byOrchestrator = "orchestrator"
	byGateway      = "modelgw"
	byWorker       = "toolexec"
	byApprovals    = "approvals"
)

// The names.
const (
	RunsStarted    = "crumbmesh.runs.started"
	RunsEnded      = "crumbmesh.runs.ended"
	RunDuration    = "crumbmesh.run.duration"
	RunsCurrent    = "crumbmesh.runs.current"
	StepDuration   = "crumbmesh.step.duration"
	CallDuration   = "crumbmesh.call.duration"
	CallsBlocked   = "crumbmesh.calls.blocked"
	Tokens         = "crumbmesh.tokens"
	Cost           = "crumbmesh.cost"
	ApprovalWait   = "crumbmesh.approval.wait"
	ApprovalsOpen  = "crumbmesh.approvals.open"
	ApprovalsAge   = "crumbmesh.approvals.oldest.age"
	Decisions      = "crumbmesh.decisions"
	Conflicts      = "crumbmesh.decision.conflicts"
	DecisionsFault = "crumbmesh.decision.failures"
	Helped         = "crumbmesh.outbox.helped"
	ResultsLate    = "crumbmesh.results.late"
	QueueFull      = "crumbmesh.queue.full"

	StreamMessages = "crumbmesh.stream.messages"
	StreamBytes    = "crumbmesh.stream.size"
	StreamLimit    = "crumbmesh.stream.limit"
	QueuePending   = "crumbmesh.consumer.pending"
	QueueInHand    = "crumbmesh.consumer.in_hand"
	QueueAge       = "crumbmesh.consumer.oldest.age"
	QueueWorkers   = "crumbmesh.queue.workers"
	MeshReadErrors = "crumbmesh.mesh.read.failures"

	Messages     = "crumbmesh.consumer.messages"
	Redeliveries = "crumbmesh.consumer.redeliveries"
	QueueWait    = "crumbmesh.consumer.wait"
	DeadLetters  = "crumbmesh.dead_letters"
	Violations   = "crumbmesh.nats.permission_violations"
	LoopHealthy  = "crumbmesh.loop.healthy"

	ModelDuration = "gen_ai.client.operation.duration"
	ModelTokens   = "gen_ai.client.token.usage"
	ToolDuration  = "crumbmesh.tool.duration"
	ToolsInHand   = "crumbmesh.tool.in_hand"
	Answers       = "crumbmesh.approvals.decided"
)

// Labels.
const (
	labelAgent    = "agent"
	labelTool     = "tool"
	labelGroup    = "group"
	labelProvider = "provider"
	labelModel    = "model"
	labelStatus   = "status"
	labelCode     = "code"
	labelOutcome  = "outcome"
	labelStream   = "stream"
	labelConsumer = "consumer"
	labelKind     = "kind"
	labelQueue    = "queue"
	labelService  = "service"
)

// All is the table, in the order of the document.
func All() []Instrument {
	short := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	long := []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}
	human := []float64{1, 10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600}
	genai := []float64{.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	tokens := []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
	return []Instrument{
		{RunsStarted, Count, "{run}", []string{labelAgent}, byOrchestrator, "Runs that began; those of agents nobody applied are `_unknown`.", nil},
		{RunsEnded, Count, "{run}", []string{labelAgent, labelStatus, labelCode}, byOrchestrator, "Runs that ended: completed, failed or cancelled, with the code of the error.", nil},
		{RunDuration, Histogram, seconds, []string{labelAgent, labelStatus}, byOrchestrator, "From the request to the last crumb, waits for people included.", human},
		{RunsCurrent, Gauge, "{run}", []string{labelStatus}, byOrchestrator, "Runs that have not ended, by status, read from the bucket: every replica shows the same.", nil},
		{StepDuration, Histogram, seconds, []string{labelAgent, labelOutcome}, byOrchestrator, "A model attempt as the run saw it, its wait in the queue included.", long},
		{CallDuration, Histogram, seconds, []string{labelTool, labelOutcome}, byOrchestrator, "A tool call as the run saw it, its wait in the queue included.", long},
		{CallsBlocked, Count, "{call}", []string{labelAgent}, byOrchestrator, "Calls that were refused before they were sent: unknown tool, arguments, permission, limits.", nil},
		{Tokens, Count, "{token}", []string{labelAgent, labelProvider, labelModel, labelKind}, byOrchestrator, "Tokens of model attempts that counted; kind is input, output, cache_read, cache_write or reasoning.", nil},
		{Cost, Count, "{unit}", []string{labelAgent, labelProvider, labelModel, "currency"}, byOrchestrator, "Cost of model attempts that counted, in whole units of the currency.", nil},
		{ApprovalWait, Histogram, seconds, []string{labelKind, labelOutcome}, byOrchestrator, "From a question to its answer, its expiry or its withdrawal.", human},
		{ApprovalsOpen, Gauge, "{question}", nil, byOrchestrator, "Questions that wait for a person, read from the bucket.", nil},
		{ApprovalsAge, Gauge, seconds, nil, byOrchestrator, "Age of the oldest question that waits; 0 when none does.", nil},
		{Decisions, Count, "{decision}", []string{labelKind}, byOrchestrator, "Decisions that were recorded, by what was decided about.", nil},
		{Conflicts, Count, "{conflict}", []string{labelKind}, byOrchestrator, "Decisions made again because another replica wrote the record first.", nil},
		{DecisionsFault, Count, "{decision}", []string{labelKind}, byOrchestrator, "Events that could not be decided; their runs end with INTERNAL_ERROR.", nil},
		{Helped, Count, "{outbox}", nil, byOrchestrator, "Outboxes delivered for a process that died or lost its connection.", nil},
		{ResultsLate, Count, "{result}", []string{labelKind}, byOrchestrator, "Results that came after their call was settled; they are acknowledged and leave no crumb.", nil},
		{QueueFull, Count, "{refusal}", nil, byOrchestrator, "Times a work queue refused a command; no new request is taken meanwhile.", nil},

		{StreamMessages, Gauge, "{message}", []string{labelStream}, byOrchestrator, "Messages that a stream holds.", nil},
		{StreamBytes, Gauge, bytes, []string{labelStream}, byOrchestrator, "Bytes that a stream holds.", nil},
		{StreamLimit, Gauge, bytes, []string{labelStream}, byOrchestrator, "Bytes that a stream may hold; streams without a limit are left out.", nil},
		{QueuePending, Gauge, "{message}", []string{labelStream, labelConsumer}, byOrchestrator, "Messages that wait for a consumer.", nil},
		{QueueInHand, Gauge, "{message}", []string{labelStream, labelConsumer}, byOrchestrator, "Messages handed out and not settled.", nil},
		{QueueAge, Gauge, seconds, []string{labelStream, labelConsumer}, byOrchestrator, "Age of the oldest message that is not done; 0 when there is none.", nil},
		{QueueWorkers, Gauge, "{worker}", []string{labelService, labelQueue}, byOrchestrator, "Workers that are present, of each group and provider that has a queue.", nil},
		{MeshReadErrors, Count, "{failure}", nil, byOrchestrator, "Reads of the gauges above that NATS did not answer; they keep their last values.", nil},

		{Messages, Count, "{message}", []string{labelStream, labelConsumer, labelOutcome}, byEvery, "Messages settled: done, retry (comes back later), returned (at once), dead.", nil},
		{Redeliveries, Count, "{message}", []string{labelStream, labelConsumer}, byEvery, "Messages that came for the second time or later.", nil},
		{QueueWait, Histogram, seconds, []string{labelStream, labelConsumer}, byEvery, "From a message's storing to its first delivery.", short},
		{DeadLetters, Count, "{message}", []string{labelStream, labelCode}, byEvery, "Messages given up and kept among the dead letters.", nil},
		{Violations, Count, "{violation}", nil, byEvery, "Operations that NATS refused this connection.", nil},
		{LoopHealthy, Gauge, "{loop}", []string{labelStream, labelConsumer}, byEvery, "1 while a consume loop hears from the server, else 0.", nil},

		{ModelDuration, Histogram, seconds, []string{"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "error.type"}, byGateway, "A request to a provider (OpenTelemetry GenAI conventions); error.type is empty when it went well.", genai},
		{ModelTokens, Histogram, "{token}", []string{"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.token.type"}, byGateway, "Tokens of a request; gen_ai.token.type is input or output.", tokens},
		{ToolDuration, Histogram, seconds, []string{labelTool, labelGroup, labelOutcome}, byWorker, "A handler's own time; outcome is ok, error, cancelled or unknown.", long},
		{ToolsInHand, Gauge, "{call}", []string{labelGroup}, byWorker, "Calls that this worker has in hand.", nil},
		{Answers, Count, "{decision}", []string{labelOutcome, "via"}, byApprovals, "Answers recorded, by outcome and by the way they came.", nil},
	}
}

// Lookup is the row of a name.
func Lookup(name string) (Instrument, bool) {
	all := All()
	i := slices.IndexFunc(all, func(i Instrument) bool { return i.Name == name })
	if i < 0 {
		return Instrument{}, false
	}
	return all[i], true
}

// Prometheus is the name on a Prometheus page, of a histogram without the endings
// _bucket, _sum and _count.
func (i Instrument) Prometheus() string {
	name := PrometheusLabel(i.Name)
	switch i.Unit {
	case seconds:
		name += "_seconds"
	case bytes:
		name += "_bytes"
	}
	if i.Kind == Count {
		name += "_total"
	}
	return name
}

// PrometheusLabel is a label's name on a Prometheus page.
func PrometheusLabel(name string) string { return strings.ReplaceAll(name, ".", "_") }
