package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// permit checks again why a call may run. It returns INVALID_MESSAGE when
// argsHash is not that of the arguments, TOOL_DENIED without a verdict,
// DECISION_INVALID for an approval of something else or by nobody. Nobody is asked
// about a hook or a parser: those are allowed or not sent.
func permit(call crumbs.ToolCall, t tool.Tool, verify func(crumbs.Decision) error) error {
	hash, err := hashOf(call)
	if err != nil {
		return err
	}
	if hash != call.ArgsHash {
		return fault.New(fault.InvalidMessage, "call %s: the hash of its arguments is %s, its argsHash says %s", call.CallID, hash, call.ArgsHash)
	}
	switch call.Permission.Verdict {
	case crumbs.VerdictAllow:
		return nil
	case crumbs.VerdictApproved:
		if call.Kind != crumbs.KindTool {
			break
		}
		return approved(call, t, verify)
	}
	return fault.New(fault.ToolDenied, "call %s: verdict %q: expected allow or approved", call.CallID, call.Permission.Verdict)
}

// hashOf is what argsHash should be: of a tool's arguments that of their canonical
// form, which a person may have approved; of what the mesh itself made for a hook or a
// parser, which may hold any number of a run's, that of the bytes.
func hashOf(call crumbs.ToolCall) (string, error) {
	if call.Kind == crumbs.KindTool {
		return argument.Hash(call.Args)
	}
	sum := sha256.Sum256(call.Args)
	return hex.EncodeToString(sum[:]), nil
}

func approved(call crumbs.ToolCall, t tool.Tool, verify func(crumbs.Decision) error) error {
	d := call.Permission.Decision
	bad := func(what string) error {
		return fault.New(fault.DecisionInvalid, "call %s is said to be approved, but %s", call.CallID, what)
	}
	switch {
	case d == nil:
		return bad("carries no decision")
	case d.Outcome != crumbs.DecideApprove:
		return bad("the decision's outcome is " + d.Outcome)
	case d.RunID != call.RunID:
		return bad("the decision is about another run")
	case d.CheckpointID != call.CallID || (d.ToolCallID != "" && d.ToolCallID != call.CallID):
		return bad("the decision is about another call")
	case verify == nil:
		return bad("this worker has no key to verify decisions; configure the public key of approvals")
	}
	if err := verify(*d); err != nil {
		return err
	}
	if len(d.Args) == 0 {
		if d.ArgsHash != call.ArgsHash {
			return bad("the decision is about other arguments")
		}
		return nil
	}
	if !sameArguments(d.Args, call.ArgsHash, t) {
		return bad("its arguments are not those that the decision gives")
	}
	return nil
}

// sameArguments compares edited arguments with what runs: as the person wrote
// them, or with the tool's defaults filled in, as the mesh does before dispatch.
func sameArguments(edited json.RawMessage, want string, t tool.Tool) bool {
	if hash, err := argument.Hash(edited); err == nil && hash == want {
		return true
	}
	filled, err := t.Prepare(edited)
	if err != nil {
		return false
	}
	hash, err := argument.Hash(filled)
	return err == nil && hash == want
}
