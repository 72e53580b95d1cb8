package decision

import (
	"bytes"
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// payload returns what is signed: the canonical form of d without `sig`. The
// type is part of it, so a signature of a decision is one of nothing else.
func payload(d crumbs.Decision) ([]byte, error) {
	if d.Type != crumbs.TypeDecision {
		return nil, fault.New(fault.DecisionInvalid, "type %q: expected %q", d.Type, crumbs.TypeDecision)
	}
	body, err := json.Marshal(d)
	if err != nil {
		return nil, fault.Wrap(fault.DecisionInvalid, err, "the decision on %s is not JSON: its args or its response are malformed", d.CheckpointID)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, fault.Wrap(fault.DecisionInvalid, err, "the decision on %s is no JSON object", d.CheckpointID)
	}
	delete(fields, "sig")
	if body, err = json.Marshal(fields); err != nil {
		return nil, fault.Wrap(fault.DecisionInvalid, err, "the decision on %s is not JSON", d.CheckpointID)
	}
	text, err := argument.Canonical(body)
	if err != nil {
		return nil, fault.Wrap(fault.DecisionInvalid, err, "the decision on %s cannot be signed: %s", d.CheckpointID, fault.From(err).Message)
	}
	return text, nil
}

// Same reports whether two JSON values are one value: key order, white space and
// the spelling of numbers and escapes do not count. Absent is equal to absent
// only. Values without a canonical form are equal when their bytes are.
func Same(a, b json.RawMessage) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	left, errLeft := argument.Canonical(a)
	right, errRight := argument.Canonical(b)
	if errLeft != nil || errRight != nil {
		return bytes.Equal(a, b)
	}
	return bytes.Equal(left, right)
}
