package agent

import (
	"slices"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// fields are the keys an object of our files may have.
type fields struct {
	built []string          // read
	later []string          // of the format, but not built: NOT_AVAILABLE
	hints map[string]string // what to write instead of a key that people try
}

// refuse is what is wrong with a key of the object, nil when it is read.
func (f fields) refuse(name string) *fault.Error {
	if slices.Contains(f.built, name) {
		return nil
	}
	if slices.Contains(f.later, name) {
		return notAvailable("the field %s", name)
	}
	e := fault.New(fault.InvalidConfig, "unknown field %s", word(name))
	if hint, ok := f.hints[name]; ok {
		e.Message += ": " + hint
	} else if near := meant(name, slices.Concat(f.built, f.later)); near != "" {
		e.Message += near
	} else {
		e.Message += "; expected " + orList(f.built)
	}
	return e
}

func notAvailable(format string, args ...any) *fault.Error {
	e := fault.New(fault.NotAvailable, format, args...)
	e.Message += " is known but not built in this version: remove it"
	return e
}

func projectFields() fields {
	return fields{
		built: []string{"agents", "groups", "providers", "models", "plugins", "hooks"},
		later: []string{"credentials", "tools", "budget", "budgets", "tasks", "skills", "pipelines", "concurrency", "errorHandling", "approvals", "store"},
		hints: map[string]string{"entrypoints": "list the agents under agents"},
	}
}

func groupFields() fields {
	return fields{
		built: []string{"maxInFlight", "command", "watch", "startBeforeMs"},
		later: []string{"affinity"},
	}
}

func agentFields() fields {
	return fields{
		built: []string{
			"description", "model", "providers", "inputSchema", "outputSchema", "output", "permissions", "steps", "errorHandling", "hooks", "plugins",
		},
		later: []string{
			"tools", "disclosure", "tasks", "skills", "budget", "actions", "phases", "documents", "knowledge", "supervisor", "loop",
		},
		hints: map[string]string{
			"id":           "an agent's id is the name of its folder; remove the field",
			"name":         "an agent's id is the name of its folder; remove the field",
			"system":       "the system prompt is the file prompt.md beside agent.yaml",
			"systemPrompt": "the system prompt is the file prompt.md beside agent.yaml",
			"prompt":       "the system prompt is the file prompt.md beside agent.yaml",
			"instructions": "the system prompt is the file prompt.md beside agent.yaml",
			"provider":     "write model: {provider: …, model: …}",
			"maxSteps":     "write steps: {max: …}",
			"retry":        "write errorHandling: {retry: …}",
		},
	}
}

func modelFields() fields {
	return fields{
		built: []string{"provider", "model", "settings", "providerOptions"},
		hints: map[string]string{"name": "write model: <name>", "temperature": "write settings: {temperature: …}"},
	}
}

func settingsFields() fields {
	return fields{built: []string{
		"temperature", "maxOutputTokens", "topP", "topK", "presencePenalty", "frequencyPenalty", "stopSequences", "seed",
	}}
}

func aliasFields() fields {
	f := modelFields()
	f.built = append(f.built, "default")
	return f
}

func outputFields() fields { return fields{built: []string{"format", "repair"}} }
func customFields() fields {
	return fields{built: []string{"custom", "group", "exec", "timeoutMs"}, hints: map[string]string{"name": "write custom: <name>", "parser": "write custom: <name>"}}
}
func hooksFields() fields { return fields{built: crumbs.HookPoints()} }
func toolHooksFields() fields {
	return fields{built: []string{crumbs.HookBeforeRun, crumbs.HookAfterRun, crumbs.HookOnError}, hints: map[string]string{crumbs.HookOnSuspend: neverSuspends}}
}
func hookFields() fields {
	return fields{
		built: []string{"worker", "exec", "nats", "name", "group", "env", "dir", "timeoutMs", "advisory", "retry"},
		hints: map[string]string{
			"command": "a command is exec: [word, word]",
			"subject": "write nats: <subject>",
			"hook":    "write worker: {group: …, hook: …}",
			"timeout": "write timeoutMs, in milliseconds",
		},
	}
}
func hookWorkerFields() fields { return fields{built: []string{"group", "hook"}} }
func pluginFields() fields {
	return fields{built: []string{"name", "hooks"}, later: []string{"config", "tools"}}
}
func approvalFields() fields   { return fields{built: []string{"hooks"}} }
func permissionFields() fields { return fields{built: []string{"allow", "ask", "deny"}} }
func stepsFields() fields      { return fields{built: []string{"max"}} }
func errorFields() fields      { return fields{built: []string{"retry"}} }
func retryFields() fields {
	return fields{built: []string{"attempts", "backoffMs", "backoffMultiplier"}}
}
func workerFields() fields {
	return fields{built: []string{"group", "tool"}, later: []string{"provider"}}
}
func humanFields() fields       { return fields{built: []string{"answerSchema", "prompt", "expiresMs"}} }
func scriptFields() fields      { return fields{built: []string{"turns"}} }
func scriptCallFields() fields  { return fields{built: []string{"name", "args"}} }
func scriptFileFields() fields  { return fields{built: []string{"name", "mimeType", "text", "base64"}} }
func scriptErrorFields() fields { return fields{built: []string{"status", "retryAfterMs"}} }

func toolFields() fields {
	return fields{
		built: []string{"description", "schema", "outputSchema", "exec", "worker", "human", "env", "dir", "group", "effect", "stream", "timeoutMs", "idleTimeoutMs", "keepPartials", "hooks", "errorHandling", "approval"},
		later: []string{"http", "credentials", "credentialProvider", "limits", "cost", "budget", "skills", "resultBytesMax"},
		hints: map[string]string{
			"name":         "a tool is named by its file; remove the field",
			"inputSchema":  "the schema of the arguments is schema",
			"input_schema": "the schema of the arguments is schema",
			"parameters":   "the schema of the arguments is schema",
			"command":      "a command is exec: [word, word]",
			"timeout":      "write timeoutMs, in milliseconds",
		},
	}
}

func turnFields() fields {
	return fields{
		built: []string{"text", "chunks", "delayMs", "reasoning", "json", "files", "toolCalls", "finishReason", "usage", "error"},
		hints: map[string]string{"tools": "write toolCalls: [{name: …, args: …}]"},
	}
}

func usageFields() fields {
	return fields{built: []string{
		"inputTokens", "outputTokens", "totalTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens", "estimated",
	}}
}
