package worker

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// A repeated request is the same whatever the order of its keys; another value,
// also of a number that floats cannot tell apart, is another request.
func TestRequestHash_SameRequest(t *testing.T) {
	t.Parallel()
	hash := func(input string) string {
		return RequestHash(crumbs.RunRequest{RunID: "run_1", AgentID: "clerk", Input: json.RawMessage(input)})
	}
	for _, same := range [][2]string{{`{"a":1,"b":[2,{}]}`, ` { "b" : [2, {}], "a" : 1 } `}, {``, `{}`}} {
		if hash(same[0]) != hash(same[1]) {
			t.Errorf("%s and %s are told apart", same[0], same[1])
		}
	}
	for _, other := range [][2]string{{`{"a":1}`, `{"a":2}`}, {`9007199254740993`, `9007199254740992`}, {`"a"`, `["a"]`}} {
		if hash(other[0]) == hash(other[1]) {
			t.Errorf("%s and %s are taken for one", other[0], other[1])
		}
	}
}

func TestCheckStatus_OnlyKnownWords(t *testing.T) {
	t.Parallel()
	d := &mesh.Delivery{Subject: "tool.result.demo.run_1.run_1-1-0-1"}
	if err := checkStatus(d, "ok", "ok", "error"); err != nil {
		t.Error(err)
	}
	if err := checkStatus(d, "bogus", "ok", "error"); fault.CodeOf(err) != fault.InvalidMessage || !strings.Contains(err.Error(), "bogus") {
		t.Errorf("got %v", err)
	}
}

func TestCarriable_DeepResultIsAnError(t *testing.T) {
	t.Parallel()
	nested := func(n int) json.RawMessage {
		return json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n))
	}
	r := &crumbs.ToolResult{Status: crumbs.StatusOK, Result: nested(argument.ResultDepthMax)}
	if carriable(r); r.Status != crumbs.StatusOK {
		t.Errorf("a result at the limit is refused: %v", r.Error)
	}
	r.Result = nested(argument.ResultDepthMax + 1)
	if carriable(r); r.Status != crumbs.StatusError || r.Result != nil || r.Error.Code != fault.ToolResultInvalid {
		t.Errorf("got %+v", r)
	}
}
