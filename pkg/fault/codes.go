package fault

// Code is a stable, upper-snake name of a kind of failure. The catalogue is
// closed and append-only; docs/errors.md is generated from it.
type Code string

// The catalogue. Each code's meaning is in Catalogue.
const (
	InvalidPermission     Code = "INVALID_PERMISSION"
	InvalidName           Code = "INVALID_NAME"
	InvalidConfig         Code = "INVALID_CONFIG"
	InvalidInput          Code = "INVALID_INPUT"
	InvalidArguments      Code = "INVALID_ARGUMENTS"
	InvalidMessage        Code = "INVALID_MESSAGE"
	NotAvailable          Code = "NOT_AVAILABLE"
	AgentNotFound         Code = "AGENT_NOT_FOUND"
	RunNotFound           Code = "RUN_NOT_FOUND"
	RunConflict           Code = "RUN_CONFLICT"
	RunCancelled          Code = "RUN_CANCELLED"
	RunDeadlineExceeded   Code = "RUN_DEADLINE_EXCEEDED"
	ToolNotFound          Code = "TOOL_NOT_FOUND"
	ToolNameCollision     Code = "TOOL_NAME_COLLISION"
	ToolGroupUnknown      Code = "TOOL_GROUP_UNKNOWN"
	ToolError             Code = "TOOL_ERROR"
	ToolDenied            Code = "TOOL_DENIED"
	ToolLost              Code = "TOOL_LOST"
	ToolTimeout           Code = "TOOL_TIMEOUT"
	ToolCancelled         Code = "TOOL_CANCELLED"
	ToolResultInvalid     Code = "TOOL_RESULT_INVALID"
	ToolCallLimit         Code = "TOOL_CALL_LIMIT"
	OutcomeUnknown        Code = "OUTCOME_UNKNOWN"
	UnknownProvider       Code = "UNKNOWN_PROVIDER"
	ModelError            Code = "MODEL_ERROR"
	ModelTimeout          Code = "MODEL_TIMEOUT"
	CheckpointNotFound    Code = "CHECKPOINT_NOT_FOUND"
	CheckpointExpired     Code = "CHECKPOINT_EXPIRED"
	DecisionInvalid       Code = "DECISION_INVALID"
	QueueFull             Code = "QUEUE_FULL"
	PayloadTooLarge       Code = "PAYLOAD_TOO_LARGE"
	StateTooLarge         Code = "STATE_TOO_LARGE"
	StateTooNew           Code = "STATE_TOO_NEW"
	CrumbsExpired         Code = "CRUMBS_EXPIRED"
	TopologyMissing       Code = "TOPOLOGY_MISSING"
	PermissionsViolation  Code = "PERMISSIONS_VIOLATION"
	Unavailable           Code = "UNAVAILABLE"
	ShuttingDown          Code = "SHUTTING_DOWN"
	InternalError         Code = "INTERNAL_ERROR"
	CredentialNotDeclared Code = "CREDENTIAL_NOT_DECLARED"
	CredentialMissing     Code = "CREDENTIAL_MISSING"
	DeadLetterNotFound    Code = "DEAD_LETTER_NOT_FOUND"
	RedriveRefused        Code = "REDRIVE_REFUSED"
	RunEnded              Code = "RUN_ENDED"
	CallSettled           Code = "CALL_SETTLED"
	CallStarted           Code = "CALL_STARTED"
	ToolOutputInvalid     Code = "TOOL_OUTPUT_INVALID"
	OutputInvalid         Code = "OUTPUT_INVALID"
	HookError             Code = "HOOK_ERROR"
	HookNotFound          Code = "HOOK_NOT_FOUND"
	ParserNotFound        Code = "PARSER_NOT_FOUND"
	ApprovalArgsChanged   Code = "APPROVAL_ARGS_CHANGED"
	FileNotFound          Code = "FILE_NOT_FOUND"
)

// Entry is one row of the catalogue.
type Entry struct {
	Code    Code
	Meaning string // when it is returned
	Remedy  string // what the person who sees it can do
}

// Catalogue lists every code in the order of docs/errors.md.
func Catalogue() []Entry { return append([]Entry(nil), catalogue...) }

var catalogue = []Entry{
	{InvalidPermission, "A permission selector is malformed, names an unknown scope, or targets a tool of scope system or human.", "Write `scope:name` (tool, task, core, action) or `scope:sub/name` (skill, plugin); a `*` stands for a whole segment or part of one. Tools of scope system and human are always available: remove their selectors."},
	{InvalidName, "A name is outside its grammar.", "Tool, skill, task, plugin, hook, group and provider names are lowercase snake_case; agent ids may have dashes; run ids are `[A-Za-z0-9_-]{1,64}`."},
	{InvalidConfig, "A file, flag or environment variable does not load.", "The message names file, line and key; `crumb agents validate DIR` lists every fault at once."},
	{InvalidInput, "A run's input does not match the agent's inputSchema.", "Send input that fits; `crumb agents list --json` shows the schema."},
	{InvalidArguments, "A tool call's arguments do not match the tool's schema, or hold a number that cannot be kept exactly.", "The model sees the message and may call again; send integers beyond 2^53 as strings."},
	{InvalidMessage, "A message on the wire is not what its subject says.", "Compare it with schemas/; `crumb dead list` has it, with the reason."},
	{NotAvailable, "The feature is known but not built in this version.", "Remove what the message names, a field, an action or a value; docs/files.md lists the fields of files."},
	{AgentNotFound, "No agent of that id is applied.", "`crumb agents list` shows the ids; `crumb dev DIR` and `crumb agents apply DIR` serve those of a folder."},
	{RunNotFound, "No run of that id is on record.", "Finished runs are kept 15 days; check the id."},
	{RunConflict, "The run id was used before with another request.", "Choose another run id, or send the same request."},
	{RunCancelled, "The run was cancelled.", "None: someone asked for it; `reason` says why."},
	{RunDeadlineExceeded, "The run did not end before limits.deadlineMs, or not in 13 days, a little less than its crumbs are kept (`crumb init --keep-crumbs`).", "The limit stands in the run request (`nats pub run.request.AGENT '{\"limits\":{\"deadlineMs\":600000},…}'`, client.Request.Limits); raise it, leave it out, or give the run less to do."},
	{ToolNotFound, "The model asked for a tool the run does not have, or an approved tool is gone.", "The model sees the close matches; check the agent's tools and permissions, and that a worker announces the tool (`crumb tools list`)."},
	{ToolNameCollision, "Two permitted tools share one model-facing name.", "Rename one, or deny one."},
	{ToolGroupUnknown, "A tool belongs to a worker group that has no queue.", "Name the group in crumb.yaml under `groups` and apply again (`crumb dev` does so as you save)."},
	{ToolError, "The tool reported a failure.", "The model sees the message; the tool's author knows the rest."},
	{ToolDenied, "A person rejected the call, or a worker refused its permission.", "Ask the person named in the crumb `human:resumed`; a worker's refusal says what it expected."},
	{ToolLost, "The call never started, or its worker died three times.", "Start workers of the group; a call that killed its workers lies among the dead letters (`crumb dead list`)."},
	{ToolTimeout, "The call ran longer than its limit.", "Raise the tool's `timeoutMs`; one that streams may be given an `idleTimeoutMs` as well."},
	{ToolCancelled, "The call was stopped because its run was cancelled.", "None."},
	{ToolResultInvalid, "The tool's result is not JSON, or is nested too deeply.", "Mend the tool."},
	{ToolCallLimit, "One turn asked for more calls than a run allows.", "At most 64 calls a turn."},
	{OutcomeUnknown, "A call that must not run twice was interrupted; whether its effect happened is not known.", "Look at the system the tool acts on, by the call's id: a tool got it as CRUMB_CALL_ID or Context.CallID."},
	{UnknownProvider, "The agent names a model provider that no gateway serves.", "Write `model: {provider: script, …}`, or an instance of kind script listed under `providers` of crumb.yaml: this release has no other kind. The message lists what is served."},
	{ModelError, "The model provider failed.", "The message has the provider's status, or what is wrong in the script; `errorHandling.retry` of the agent repeats transient failures, and nothing does without it."},
	{ModelTimeout, "The model call did not answer before its deadline.", "Look whether a model gateway runs: `crumb dev` has one. A script with long `delayMs` is the other cause."},
	{CheckpointNotFound, "No question of that id is open.", "It was answered, expired or never asked: the message says by whom and when. `crumb approvals list --status all` has the whole list."},
	{CheckpointExpired, "Nobody answered before the question expired.", "Answer sooner, or raise `human.expiresMs` of the tool file (a week at most); the question of an approval waits a day."},
	{DecisionInvalid, "An answer does not fit its question: wrong kind, other arguments, bad signature or a value outside the answer schema.", "Read the question again (`crumb approvals show`) and answer that."},
	{QueueFull, "The mesh takes no new work now: the queue of requests is full, or one of the queues of calls.", "Try again after retryAfterMs. If it stays so, see which group or provider is behind (`crumb tools list`, `nats consumer report TOOLCALLS`) and start workers of it."},
	{PayloadTooLarge, "A body is larger than the mesh carries.", "The message has size and limit; pass a reference instead of the content."},
	{StateTooLarge, "A run's record would exceed 512 KiB.", "Ask for fewer calls a turn, or let tools return references."},
	{StateTooNew, "A run's record was written by a newer version.", "Upgrade this process."},
	{CrumbsExpired, "The crumbs asked for are older than the stream keeps.", "Follow from the sequence in the context."},
	{TopologyMissing, "A stream, bucket or consumer is missing or differs.", "Run `crumb init`, which makes what is missing; the queue of a group or provider also comes with `crumb agents apply` of a crumb.yaml that names it. Where nothing of a mesh is seen, it has accounts: name the role's settings (`--config DIR/ROLE.yaml`)."},
	{PermissionsViolation, "NATS refused a publish or subscription.", "Give the user of that connection (`--creds`, `--nkey`) the subject the message names."},
	{Unavailable, "NATS did not answer in time.", "Check that a server answers at `--server` (NATS_URL), where `crumb dev` says it listens; the operation may be repeated."},
	{ShuttingDown, "The process is stopping.", "Repeat; another replica answers."},
	{InternalError, "A fault of crumbmesh itself.", "The service's log has the details; please report it."},
	{CredentialNotDeclared, "A tool asked for a credential it does not declare.", "Reserved: `credentials` is not built in this release, and nothing returns it. A program sees the variables named in its `env`."},
	{CredentialMissing, "A variable that a tool file names in `env` is not set, or empty, where the tool runs.", "Set it in the environment of the process that serves the tool, for exec tools that of `crumb dev`, and start it again; or take it off `env`."},
	{DeadLetterNotFound, "No dead letter of that id is kept.", "`crumb dead list` shows the ids; letters are kept 30 days."},
	{RedriveRefused, "What lies in the dead letter cannot be worked on again as it is.", "The message says why, and what can be done instead."},
	{RunEnded, "The run has ended: nothing of it can be redriven or answered any more.", "Start another run; `crumb runs get RUN` shows how this one ended. A dead letter of it can be closed: `crumb dead close ID --reason TEXT`."},
	{CallSettled, "The call has its outcome, or is at another attempt by now.", "None: the message says what became of it; the run's crumbs have the outcome (`crumb watch RUN`)."},
	{CallStarted, "The attempt of the call had started, so another one or an outcome by hand may contradict what it does.", "Look at the system the tool acts on; then repeat the command with `--force`."},
	{ToolOutputInvalid, "A tool answered with a result that does not match its outputSchema.", "The message names the place. Mend the tool, or the outputSchema of its file or declaration; its effect has happened."},
	{OutputInvalid, "A run's output does not match the agent's outputSchema, or is no JSON although the format is json.", "The message names the place. `output.repair: N` asks the model N times to mend it; `errorHandling.retry` asks again from the start."},
	{HookError, "A hook failed, or its answer is none that its point knows.", "The crumb `hook:error` names the hook and why it failed. `advisory: true` lets what it was called for go on."},
	{HookNotFound, "A file names a hook that no worker of its group announced.", "Start a worker that registers it, or mend the name; `crumb tools list` shows what is announced."},
	{ParserNotFound, "An agent's custom output format names a parser that no worker of its group announced.", "Start a worker that registers it, or mend the name; `crumb tools list` shows what is announced."},
	{ApprovalArgsChanged, "A beforeRun hook changed the arguments that a person had approved.", "Write `approval: {hooks: before}` into the tool file, so that hooks run before the question, or let the hook leave the arguments alone."},
	{FileNotFound, "No file of that URI is kept.", "Hand on a URI as a result or a crumb names it (`files:…`); files are kept as long as blobs (docs/retention.md)."},
}
