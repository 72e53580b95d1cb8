package schemas_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

const (
	sampleHash = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	sampleBlob = "run_1/" + sampleHash
)

// full returns values of goType with every field filled: one, or as many as the
// type has alternatives.
func full(t *testing.T, typ string, goType reflect.Type) []reflect.Value {
	t.Helper()
	value := filled(t, goType, goType.Name())
	value.FieldByName("Type").SetString(typ)
	switch typ {
	case crumbs.TypeDecision:
		approve := value.Interface().(crumbs.Decision)
		answer := approve
		approve.Response = nil
		answer.Outcome, answer.Args = crumbs.DecideAnswer, nil
		return []reflect.Value{reflect.ValueOf(approve), reflect.ValueOf(answer)}
	case crumbs.TypeRunOrder:
		answer := value.Interface().(crumbs.RunOrder)
		lost := answer
		answer.Action, answer.Error = crumbs.OrderAnswer, nil
		lost.Action, lost.Result = crumbs.OrderLost, nil
		return []reflect.Value{reflect.ValueOf(answer), reflect.ValueOf(lost)}
	case crumbs.TypeInputStart:
		value.FieldByName("Delta").SetZero()
	case crumbs.TypeInputDelta:
		value.FieldByName("ToolName").SetZero()
	case crumbs.TypeInputEnd:
		value.FieldByName("Delta").SetZero()
		value.FieldByName("ToolName").SetZero()
	}
	return []reflect.Value{value}
}

// filled returns a value of goType without a zero field; path is `Struct.Field`.
func filled(t *testing.T, goType reflect.Type, path string) reflect.Value {
	t.Helper()
	if v, ok := sample(path, goType); ok {
		return v
	}
	value := reflect.New(goType).Elem()
	switch goType.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(goType.Elem()))
		value.Elem().Set(filled(t, goType.Elem(), path))
	case reflect.Struct:
		for i := range goType.NumField() {
			if f := goType.Field(i); f.IsExported() {
				value.Field(i).Set(filled(t, f.Type, goType.Name()+"."+f.Name))
			}
		}
	case reflect.Slice:
		value.Set(reflect.Append(value, filled(t, goType.Elem(), path)))
	case reflect.Map:
		value.Set(reflect.MakeMap(goType))
		value.SetMapIndex(reflect.ValueOf("key").Convert(goType.Key()), filled(t, goType.Elem(), path))
	case reflect.Interface:
		value.Set(reflect.ValueOf("text"))
	case reflect.String:
		value.SetString("text")
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int, reflect.Int64:
		value.SetInt(3)
	case reflect.Uint64:
		value.SetUint(3)
	case reflect.Float64:
		value.SetFloat(0.5)
	default:
		t.Fatalf("%s: no sample for a %s", path, goType)
	}
	return value
}

// sample returns the value of a field whose words are prescribed.
func sample(path string, goType reflect.Type) (reflect.Value, bool) {
	var v any
	switch goType {
	case reflect.TypeFor[crumbs.Time]():
		v = crumbs.At(time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC))
	case reflect.TypeFor[[]crumbs.Part]():
		v = everyPart()
	case reflect.TypeFor[crumbs.Decision]():
		if path != "Permission.Decision" {
			return reflect.Value{}, false
		}
		v = crumbs.Decision{Type: crumbs.TypeDecision, RunID: "run_1", CheckpointID: "run_1.1.0", ToolCallID: "run_1.1.0", ArgsHash: sampleHash,
			Outcome: crumbs.DecideApprove, Args: json.RawMessage(`{}`), Reason: "text", By: crumbs.Principal{Issuer: "i", Subject: "s", Tenant: "t"},
			Via: "cli", At: crumbs.At(time.Unix(1, 0)), KeyID: "k", Signature: strings.Repeat("A", 86)}
	case reflect.TypeFor[json.RawMessage]():
		v = json.RawMessage(`{"a":null}`)
		if path == "RunRequest.Tools" {
			v = json.RawMessage(`{"name":"lookup","worker":{"group":"docs","tool":"lookup"}}`)
		}
		if path == "ModelCall.ToolChoice" {
			v = json.RawMessage(`"auto"`)
		}
	default:
		if goType.Kind() != reflect.String {
			return reflect.Value{}, false
		}
		word, ok := words()[path]
		if !ok {
			word, ok = words()[goType.Name()]
		}
		if !ok {
			return reflect.Value{}, false
		}
		return reflect.ValueOf(word).Convert(goType), true
	}
	return reflect.ValueOf(v), true
}

// words has what a string of a type or of a field must be like.
func words() map[string]string {
	return map[string]string{
		"RunID": "run_1", "SessionID": "ses_1", "AgentID": "reader", "CallID": "run_1.1.0",
		"Code": "TOOL_ERROR", "Role": "assistant", "Effect": "once", "ToolErrored.Outcome": "unknown",
		"Cost.Currency": "USD", "Model.Provider": "anthropic", "File.Kind": "file", "File.URI": "files:a", "ToolSpec.Name": "tool_read",
		"DataRef.Object": sampleBlob, "SessionRef.OnBusy": "reject",
		"RunRequest.AgentRevision": "rev_1", "RunRequest.Skill": "cite",
		"RunControl.ControlID": "ctl_1", "RunControl.Action": "message",
		"ModelOutput.Format": "json", "ModelCall.AgentRevision": "rev_1", "ModelCall.Segments": sampleBlob, "ModelCall.ToolSet": sampleHash,
		"ModelResult.Status": "ok", "ModelResult.FinishReason": "stop",
		"Permission.Verdict": "approved", "HookRef.Name": "audit", "HookRef.Point": "beforeRun",
		"ToolCall.Kind": "hook", "ToolCall.Tool": "tool:read", "ToolCall.ToolName": "tool_read", "ToolCall.Handler": "publisher/word_count",
		"ToolCall.ToolHash": sampleHash, "ToolCall.Group": "docs", "ToolCall.ArgsHash": sampleHash,
		"ToolResult.Group": "docs", "ToolResult.Status": "ok",
		"Decision.ArgsHash": sampleHash, "Decision.Outcome": "approve", "Decision.Via": "cli", "Decision.Signature": strings.Repeat("A", 86),
		"RunStarted.Skill": "cite", "RunStarted.AgentRevision": "rev_1", "RunStarted.ToolSet": sampleHash, "RunStarted.Tools": "tool_read",
		"RunEnded.FinishReason": "stop", "StepEnd.FinishReason": "tool-calls",
		"ToolCalled.ToolName": "tool_read", "ToolCalled.Tool": "tool:read", "ToolCalled.Group": "docs",
		"ToolResulted.ToolName": "tool_read", "ToolErrored.ToolName": "tool_read", "ToolBlocked.Reason": "limit",
		"HumanRequired.Kind": "approval", "HumanRequired.ToolName": "tool_read", "HumanRequired.Tool": "tool:read", "HumanRequired.ArgsHash": sampleHash,
		"HumanResumed.Kind": "approval", "HumanResumed.ToolName": "tool_read", "HumanResumed.Outcome": "edited",
		"ResultPartial.ToolName": "tool_read", "Prefix.Hash": sampleHash,
		"ToolResulted.Hook": "audit", "RunStarted.Hooks": "audit", "RunEnded.Hooks": "audit", "ToolCalled.Hooks": "audit", "ToolErrored.Hook": "audit",
		"HookErrored.Hook": "audit", "HookErrored.Point": "afterRun", "HookErrored.Scope": "tool", "HookErrored.ToolName": "tool_read",
		"FileGenerated.ToolName": "tool_read",
		"HookInput.Scope":        "tool", "HookInput.Skill": "cite", "HookInput.Tool": "tool:read", "HookInput.ToolName": "tool_read",
		"HookCheckpoint.Kind": "approval", "HookCheckpoint.ToolName": "tool_read", "HookCheckpoint.Tool": "tool:read",
		"HookAnswer.Action": "recover",
	}
}

// everyPart returns one full part of each kind.
func everyPart() []crumbs.Part {
	raw := json.RawMessage(`{"a":null}`)
	return []crumbs.Part{
		{Type: crumbs.PartText, Text: "text"},
		{Type: crumbs.PartText},
		{Type: crumbs.PartReasoning, Text: "text", Provider: "anthropic", Raw: raw},
		{Type: crumbs.PartToolCall, ToolCallID: "run_1.1.0", ToolName: "tool_read", Args: raw, ProviderCallID: "toolu_1"},
		{Type: crumbs.PartToolResult, ToolCallID: "run_1.1.0", ToolName: "tool_read", Outcome: crumbs.OutcomeOK, Output: raw},
		{Type: crumbs.PartFile, File: &crumbs.File{Kind: "file", URI: "files:a", MimeType: "text/plain", Name: "a"}},
	}
}
