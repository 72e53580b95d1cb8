package check

import (
	"encoding/json"
	"strings"
	"time"
)

// claim is the register of starts of one attempt of a call.
type claim struct {
	State  string    `json:"state"`
	Starts int       `json:"starts"`
	stored time.Time // its last change
}

// A key of the bucket ends with <run>.<step>.<call>.<attempt>; who may write it
// stands before.
const (
	callParts = 3
	keyParts  = callParts + 1
)

// claims reads the bucket: by call, of the last attempt.
func claims(messages []Message) map[string]claim {
	out := map[string]claim{}
	for _, m := range messages {
		parts := strings.Split(m.Subject, ".")
		var c claim
		if len(parts) < keyParts || json.Unmarshal(m.Body, &c) != nil {
			continue
		}
		c.stored = m.Stored
		key := parts[len(parts)-keyParts:]
		out[strings.Join(key[:callParts], ".")] = c
	}
	return out
}
