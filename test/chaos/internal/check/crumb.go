package check

import (
	"encoding/json"
	"fmt"
)

// crumb is the union of what the check reads in crumbs.
type crumb struct {
	Message `json:"-"`

	Type         string          `json:"type"`
	RunID        string          `json:"runId"`
	Seq          int             `json:"seq"`
	ToolCallID   string          `json:"toolCallId"`
	ToolCallIDs  []string        `json:"toolCallIds"`
	ToolName     string          `json:"toolName"`
	Effect       string          `json:"effect"`
	Args         json.RawMessage `json:"args"`
	ArgsHash     string          `json:"argsHash"`
	CheckpointID string          `json:"checkpointId"`
	Outcome      string          `json:"outcome"`
	Worker       string          `json:"worker"`
	Error        *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func (c crumb) terminal() bool { return c.Type == "agent:run:end" || c.Type == "agent:error" }

func (c crumb) code() string {
	if c.Error == nil {
		return ""
	}
	return c.Error.Code
}

// sequence is the header that numbers the crumb.
func (c crumb) sequence() string { return first(c.Header, "ce-sequence") }

func (c crumb) wantSequence() string { return fmt.Sprintf("%010d", c.Seq) }

func first(header map[string][]string, name string) string {
	if v := header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}
