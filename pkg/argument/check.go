package argument

import (
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Check returns nil when doc fits the schema, else a fault of the given code
// (INVALID_ARGUMENTS, INVALID_INPUT, TOOL_RESULT_INVALID, DECISION_INVALID)
// whose message has a sentence for each problem, in the order of their paths
// and at most problemsMax of them: "limit must be an integer, got a string",
// "missing field path", "unknown field x". The sentences are also in the
// context's `problems`. They name paths and JSON types, nothing of this program.
// Text the strict reader refuses is refused with the same code, and so is a
// document too deep for a schema whose forms refer to it again (stepsMax).
func (s *Schema) Check(code fault.Code, doc json.RawMessage) error {
	subject := subjectOf(code)
	v, p := document(doc, false)
	if p != nil {
		return fault.New(code, "%s cannot be read: %s", subject, p.text).With("path", p.path)
	}
	if !s.bounded && !affordable(s.root, v) {
		return fault.New(code, "%s cannot be checked: nested too deeply for a schema of so many forms; send it flatter", subject).With("path", "")
	}
	err := s.root.Validate(v)
	if err == nil {
		return nil
	}
	found := problems(v, misfit(err), subject)
	verb := "does"
	if code == fault.InvalidArguments {
		verb = "do"
	}
	return fault.New(code, "%s %s not fit the schema: %s", subject, verb, sentences(found)).With("problems", texts(found))
}

// subjectOf is what a document checked under code is called.
func subjectOf(code fault.Code) string {
	switch code {
	case fault.InvalidArguments:
		return "the arguments"
	case fault.InvalidInput:
		return "the input"
	case fault.ToolResultInvalid, fault.ToolOutputInvalid:
		return "the result"
	case fault.OutputInvalid:
		return "the output"
	case fault.DecisionInvalid:
		return "the answer"
	default:
		return "the document"
	}
}
