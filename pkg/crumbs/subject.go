package crumbs

import (
	"strconv"
	"strings"
)

// Streams and buckets of the mesh (docs/ARCHITECTURE.md). Their settings are in pkg/mesh.
const (
	StreamRequests   = "REQUESTS"
	StreamInbox      = "INBOX"
	StreamTimers     = "TIMERS"
	StreamModelCalls = "MODELCALLS"
	StreamToolCalls  = "TOOLCALLS"
	StreamCrumbs     = "CRUMBS"
	StreamDeltas     = "DELTAS"
	StreamDead       = "DEADLETTER"
	StreamBlobs      = "BLOBS"

	BucketRuns      = "runs"
	BucketAgents    = "agents"
	BucketTools     = "tools"
	BucketWorkers   = "workers"
	BucketApprovals = "approvals"
	BucketClaims    = "claims"
	BucketSessions  = "sessions"
)

// Subject patterns, as consumers and permissions name them.
const (
	SubjectRequests    = "run.request.*"
	SubjectToolCalls   = "tool.call.>"
	SubjectModelCalls  = "model.call.>"
	SubjectCrumbs      = "crumb.>"
	SubjectDeltas      = "delta.>"
	SubjectDead        = "dead.>"
	SubjectTimers      = "timer.>"
	SubjectTimersDue   = "timer.due.>"
	SubjectHumanCrumbs = "crumb.*.*.human.*"
	SubjectCancels     = "ctl.cancel.*"
)

// InboxSubjects are the subjects of INBOX: answers to work already accepted.
func InboxSubjects() []string {
	return []string{"run.start.*", "run.control.*", "run.child.*.*", "run.order.*.*", "model.result.>", "tool.result.>", "approval.decision.>"}
}

// RequestSubject is where a run of agent is asked for.
func RequestSubject(agent AgentID) string { return "run.request." + string(agent) }

// ControlSubject is where a run is cancelled, paused, unpaused or told something.
func ControlSubject(run RunID) string { return "run.control." + string(run) }

// OrderSubject takes the one order about an attempt of a call.
func OrderSubject(call CallID, attempt int) string {
	return "run.order." + string(call.Run()) + "." + call.Token() + "-" + strconv.Itoa(attempt)
}

// ModelCallSubject is the queue of a provider instance.
func ModelCallSubject(provider string, run RunID) string {
	return "model.call." + provider + "." + string(run)
}

// ProviderOwn stands, in subjects and keys, for every provider instance that an
// agent has of its own: the body of a call names the agent's revision and the
// instance. No instance of a project has this name.
const ProviderOwn = "own"

// ModelCallFilter matches all calls of a provider instance.
func ModelCallFilter(provider string) string { return "model.call." + provider + ".*" }

// ToolCallSubject is the queue of a worker group.
func ToolCallSubject(group string, run RunID) string { return "tool.call." + group + "." + string(run) }

// ToolCallFilter matches all calls of a worker group.
func ToolCallFilter(group string) string { return "tool.call." + group + ".*" }

// ModelResultSubject takes the one result of an attempt of a model call.
func ModelResultSubject(provider string, call CallID, attempt int) string {
	return "model.result." + provider + "." + string(call.Run()) + "." + call.Token() + "-" + strconv.Itoa(attempt)
}

// ToolResultSubject takes the one result of an attempt of a tool call.
func ToolResultSubject(group string, call CallID, attempt int) string {
	return "tool.result." + group + "." + string(call.Run()) + "." + call.Token() + "-" + strconv.Itoa(attempt)
}

// DecisionSubject takes the one decision of a checkpoint.
func DecisionSubject(run RunID, checkpoint CheckpointID) string {
	return "approval.decision." + string(run) + "." + checkpoint.Token()
}

// TimerSetSubject holds the schedule of a run's timer v.
func TimerSetSubject(run RunID, v uint64) string {
	return "timer.set." + string(run) + "." + strconv.FormatUint(v, 10)
}

// TimerDueSubject is where timer v of a run fires.
func TimerDueSubject(run RunID, v uint64) string {
	return "timer.due." + string(run) + "." + strconv.FormatUint(v, 10)
}

// CrumbSubject is where a crumb of type typ stands.
func CrumbSubject(agent AgentID, run RunID, typ string) string {
	return "crumb." + string(agent) + "." + string(run) + "." + strings.ReplaceAll(typ, ":", ".")
}

// CrumbFilter matches all crumbs of a run of a known agent; the fence of an
// append names exactly this string.
func CrumbFilter(agent AgentID, run RunID) string {
	return "crumb." + string(agent) + "." + string(run) + ".>"
}

// RunCrumbsFilter matches all crumbs of a run whose agent is not known.
func RunCrumbsFilter(run RunID) string { return "crumb.*." + string(run) + ".>" }

// RunDeltasFilter matches all deltas of a run.
func RunDeltasFilter(run RunID) string { return "delta.*." + string(run) + ".>" }

// ModelDeltaSubject is where modelgw sends a delta of type typ.
func ModelDeltaSubject(agent AgentID, run RunID, typ string) string {
	kind, _, _ := strings.Cut(typ, ":")
	if kind == "tool" {
		kind = "tool.input"
	}
	return "delta." + string(agent) + "." + string(run) + "." + kind
}

// PartialSubject is where a worker of group sends what a tool yields.
func PartialSubject(agent AgentID, run RunID, group string) string {
	return "delta." + string(agent) + "." + string(run) + ".tool.partial." + group
}

// CancelSubject reaches the workers that run calls of a run (core NATS).
func CancelSubject(run RunID) string { return "ctl.cancel." + string(run) }

// DeadSubject is where a message of a stream about run is put when it is given up:
// one subject a message, so that it is kept once. What is done about it later is
// kept beside it, on `<subject>.<act>`. label is DeadLabel.
func DeadSubject(label string, run RunID, sequence uint64) string {
	if run == "" {
		run = NoRun
	}
	return "dead." + label + "." + string(run) + "." + strconv.FormatUint(sequence, 10)
}

// DeadLabel names a stream in the subjects of dead letters. A queue that several
// groups or provider instances share has a label for each, so that a worker gives
// up its own calls only: `TOOLCALLS-<group>`.
func DeadLabel(stream, subject string) string {
	if stream == StreamToolCalls || stream == StreamModelCalls {
		return stream + "-" + Token(subject, tokenQueue)
	}
	return stream
}

// DeadFilter matches the letters of a stream and a run, "" of all. Of a queue that
// has several labels it matches all letters: the headers say which are its.
func DeadFilter(stream string, run RunID) string {
	if stream == "" || stream == StreamToolCalls || stream == StreamModelCalls {
		stream = "*"
	}
	if run == "" {
		run = "*"
	}
	return "dead." + stream + "." + string(run) + ".*"
}

// NoRun stands for the run of what belongs to none.
const NoRun RunID = "none"

// tokenQueue is the place of the group or provider instance in a call's subject.
const tokenQueue = 2

// ToolClaim is the key in bucket claims of an attempt of a call for a group: its
// workers, and nobody else's, may write there.
func ToolClaim(group string, call CallID, attempt int) string {
	return ToolKeys(group) + call.Attempt(attempt)
}

// ModelClaim is the key in bucket claims of an attempt of a model call.
func ModelClaim(provider string, call CallID, attempt int) string {
	return ModelKeys(provider) + call.Attempt(attempt)
}

// ToolPresence is the key in bucket workers of a worker of a group.
func ToolPresence(group, worker string) string { return ToolKeys(group) + worker }

// ModelPresence is the key in bucket workers of a gateway of a provider instance.
func ModelPresence(provider, worker string) string { return ModelKeys(provider) + worker }

// ToolKeys is how the keys of a group begin in buckets claims and workers.
func ToolKeys(group string) string { return "tool." + group + "." }

// ModelKeys is how the keys of a provider instance begin in buckets claims and
// workers.
func ModelKeys(provider string) string { return "model." + provider + "." }

// ClaimOf is the key of the claim of an attempt whose command stood on subject.
func ClaimOf(subject string, call CallID, attempt int) string {
	if strings.HasPrefix(subject, "tool.") {
		return ToolClaim(Token(subject, tokenQueue), call, attempt)
	}
	return ModelClaim(Token(subject, tokenQueue), call, attempt)
}

// PresenceOf is the key of the row of a worker that takes commands from subject.
func PresenceOf(subject, worker string) string {
	if strings.HasPrefix(subject, "tool.") {
		return ToolPresence(Token(subject, tokenQueue), worker)
	}
	return ModelPresence(Token(subject, tokenQueue), worker)
}

// RunOf is the run that the subject of a message names, "" when it names none: a
// request's run is in its body.
func RunOf(subject string) RunID {
	n := 2
	switch head, rest, _ := strings.Cut(subject, "."); head {
	case "run":
		if strings.HasPrefix(rest, "request.") {
			return ""
		}
	case "model", "tool":
		n = 3
	}
	if run := Token(subject, n); CheckRunID("run", run) == nil {
		return RunID(run)
	}
	return ""
}

// Token returns the n-th dot-separated token of a subject, "" when there is none.
func Token(subject string, n int) string {
	parts := strings.Split(subject, ".")
	if n >= len(parts) {
		return ""
	}
	return parts[n]
}
