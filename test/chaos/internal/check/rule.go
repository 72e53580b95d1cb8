package check

import "fmt"

// Rule names a promise.
type Rule string

// The rules.
const (
	RuleEnded     Rule = "ended"
	RuleOrder     Rule = "order"
	RuleStranger  Rule = "stranger"
	RuleOutcome   Rule = "outcome"
	RuleOnce      Rule = "once"
	RuleHappened  Rule = "happened"
	RuleKey       Rule = "key"
	RuleApproved  Rule = "approved"
	RuleCancelled Rule = "cancelled"
	RuleUnknown   Rule = "unknown"
	RuleFailed    Rule = "failed"
	RuleRecord    Rule = "record"
	RuleLeft      Rule = "left"
	RuleProcess   Rule = "process"
)

// Promise is a rule in words.
type Promise struct {
	Rule Rule
	Text string
}

// Promises lists all rules.
func Promises() []Promise {
	return []Promise{
		{RuleEnded, "Every accepted run has exactly one terminal crumb, and it is the last."},
		{RuleOrder, "The crumbs of a run are 1, 2, 3 … in the order of the stream, none missing, none twice."},
		{RuleStranger, "No crumb belongs to a run that nobody asked for, no execution to a call that no run made."},
		{RuleOutcome, "Every call of a run has exactly one outcome, every question exactly one end; a run that completed made all its calls."},
		{RuleOnce, "A `once` call happened at most once, whatever became of it."},
		{RuleHappened, "`ok` means that it happened: a `once` call exactly once, another at least once."},
		{RuleKey, "All executions of an `idempotent` call carry its id as their key and the same arguments: one effect."},
		{RuleApproved, "What ran is what the crumbs say. A call that needs an approval ran with exactly the arguments that were approved, after the answer, and not at all without one."},
		{RuleCancelled, "A `once` call that ended `cancelled` never happened. No call of a cancelled run started after its last crumb, and none that had not started ran."},
		{RuleUnknown, "Only a `once` call ends `unknown`, and only when its worker was killed or cut off, or its run cancelled, while the worker had it."},
		{RuleFailed, "No run failed, and no call but one whose workers were killed three times (TOOL_LOST)."},
		{RuleRecord, "The record of every accepted run is in its final form and agrees with the last crumb."},
		{RuleLeft, "No message waits in REQUESTS, INBOX, MODELCALLS or TOOLCALLS."},
		{RuleProcess, "A process that is told to stop ends with status 0; none ends by itself."},
	}
}

// Violation is a promise that was not kept.
type Violation struct {
	Rule Rule
	Run  string // "" when it is of no run
	Text string
}

// String is the violation in one line.
func (v Violation) String() string {
	if v.Run == "" {
		return fmt.Sprintf("%s: %s", v.Rule, v.Text)
	}
	return fmt.Sprintf("%s: %s: %s", v.Rule, v.Run, v.Text)
}
