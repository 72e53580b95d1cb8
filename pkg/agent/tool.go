package agent

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
)

// Kind is how a tool is carried out.
type Kind string

// The kinds of tools.
const (
	KindExec   Kind = "exec"   // a command beside the tool file
	KindWorker Kind = "worker" // announced by a worker
	KindHuman  Kind = "human"  // a question to a person
)

// Tool is a tool file. Exactly one of Exec, Worker and Human is set; only Worker
// may have Human beside it, where it names a question that a worker announced.
//
// Arguments have the types of Schema, whoever asks for the call: a text is no
// integer, and a script writes `"{{ .input.cents | json }}"` for a number.
//
// What a worker's tool leaves out is taken from the announcement: Description,
// Schema, OutputSchema, Effect, TimeoutMs, IdleTimeoutMs. Stream is always the
// announcement's. For an exec tool the fields are complete.
type Tool struct {
	Name          string          `json:"name"`
	Description   string          `json:"description,omitempty"`
	Schema        json.RawMessage `json:"schema,omitempty"` // of the arguments; of a human tool: of the question
	OutputSchema  json.RawMessage `json:"outputSchema,omitempty"`
	Exec          *Exec           `json:"exec,omitempty"`
	Worker        *Worker         `json:"worker,omitempty"`
	Human         *Human          `json:"human,omitempty"`
	Effect        crumbs.Effect   `json:"effect,omitempty"`
	Stream        bool            `json:"stream,omitempty"`
	TimeoutMs     int64           `json:"timeoutMs,omitempty"`
	IdleTimeoutMs int64           `json:"idleTimeoutMs,omitempty"` // longest silence of a streaming tool
	KeepPartials  bool            `json:"keepPartials,omitempty"`  // of a streaming tool: partial results are kept as crumbs
	Hooks         Hooks           `json:"hooks,omitzero"`
	ErrorHandling ErrorHandling   `json:"errorHandling,omitzero"`
	Approval      Approval        `json:"approval,omitzero"`
}

// HooksBefore is the Approval.Hooks of a tool whose beforeRun hooks come before
// the question.
const HooksBefore = "before"

// Approval says how a person is asked before the tool runs.
type Approval struct {
	Hooks string `json:"hooks,omitempty"` // HooksBefore; absent: after the approval
}

// Exec is a command: JSON arguments on stdin, a JSON result on stdout, one JSON
// a line when it streams.
type Exec struct {
	Argv    []string `json:"argv"`
	Env     []string `json:"env,omitempty"` // names passed through from the worker's environment
	Dir     string   `json:"dir,omitempty"` // slash-separated, relative to the folder of the tool file, inside the project
	Group   string   `json:"group"`
	Handler string   `json:"handler"` // `<agent>/<name>`
}

// Worker names a tool that a worker of a group announced.
type Worker struct {
	Group string `json:"group"`
	Tool  string `json:"tool"` // as announced: `<name>`, or `<agent>/<name>` for an exec tool of another agent
}

// Human is a question to a person.
type Human struct {
	AnswerSchema json.RawMessage `json:"answerSchema,omitempty"` // absent means any value
	Prompt       string          `json:"prompt,omitempty"`       // shown above the question
	ExpiresMs    int64           `json:"expiresMs,omitempty"`    // how long the question waits; 0 beside Worker: as announced
}

// Kind returns how the file says the tool is carried out, "" for a tool that Check refuses
// because it says none of them. The first of exec, worker, human counts.
func (t Tool) Kind() Kind {
	switch {
	case t.Exec != nil:
		return KindExec
	case t.Worker != nil:
		return KindWorker
	case t.Human != nil:
		return KindHuman
	}
	return ""
}

// Origin is what permissions and the model's name of the tool follow from as far
// as the file tells: scope human for a question, scope tool for the rest. A worker's
// tool that turns out to be a question has scope human in a ToolSet.
func (t Tool) Origin() perm.Origin {
	if t.Kind() == KindHuman {
		return perm.Origin{Scope: perm.Human, Name: t.Name}
	}
	return perm.Origin{Scope: perm.Tool, Name: t.Name}
}

// Handler is the name that the worker runs the tool under: `<agent>/<name>` for
// exec, the announced name for worker, "" for human.
func (t Tool) Handler() string {
	switch t.Kind() {
	case KindExec:
		return t.Exec.Handler
	case KindWorker:
		return t.Worker.Tool
	}
	return ""
}

// Group is the queue of the tool's calls, "" for human.
func (t Tool) Group() string {
	switch t.Kind() {
	case KindExec:
		return t.Exec.Group
	case KindWorker:
		return t.Worker.Group
	}
	return ""
}

// Announcement is what the worker that serves an exec tool announces. Its digest
// covers command, environment names and folder, so that a call that was
// approved for one command is never run by a worker that has another.
func (t Tool) Announcement() Announcement {
	return Announcement{
		Group: t.Group(), Handler: t.Handler(), Description: t.Description,
		Schema: t.Schema, OutputSchema: t.OutputSchema, Effect: t.Effect,
		Stream: t.Stream, TimeoutMs: t.TimeoutMs, IdleTimeoutMs: t.IdleTimeoutMs,
		Digest: fingerprint(t.Exec, shortHash),
	}
}

// runFields are the fields of the file that say how a tool runs.
func (t Tool) runFields() []string {
	var set []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"outputSchema", !isAbsent(t.OutputSchema)}, {"effect", t.Effect != ""}, {"stream", t.Stream},
		{"timeoutMs", t.TimeoutMs != 0}, {"idleTimeoutMs", t.IdleTimeoutMs != 0}, {"keepPartials", t.KeepPartials},
		{"hooks", !t.Hooks.empty()}, {"errorHandling", t.ErrorHandling.Retry != nil}, {"approval", t.Approval != Approval{}},
	} {
		if f.set {
			set = append(set, f.name)
		}
	}
	return set
}

// handlerOf is the handler of an agent's exec tool.
func handlerOf(agent crumbs.AgentID, name string) string { return string(agent) + "/" + name }

// OfProject reports whether a handler is a command of the project, which `crumb
// toolexec` serves, and no tool of a worker of one's own: those have no slash.
func OfProject(handler string) bool { return strings.Contains(handler, "/") }

func (t *Tool) fill(agent crumbs.AgentID) {
	if t.Exec != nil {
		t.Exec.Group = cmp.Or(t.Exec.Group, DefaultGroup)
		t.Exec.Handler = cmp.Or(t.Exec.Handler, handlerOf(agent, t.Name))
		t.Effect = cmp.Or(t.Effect, crumbs.EffectOnce)
		t.TimeoutMs = cmp.Or(t.TimeoutMs, DefaultTimeoutMs)
	}
	t.Hooks.fill(ofTool(agent, t.Name))
	t.ErrorHandling.Retry.fill()
	if t.Human != nil && t.Worker == nil {
		t.Human.ExpiresMs = cmp.Or(t.Human.ExpiresMs, DefaultExpiresMs)
	}
}
