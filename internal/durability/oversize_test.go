package durability_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// room is more than what stands in a body beside its large value.
const room = 4 << 10

// letters is a JSON string of so many bytes.
func letters(size int) json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`)
}

// weigher is an agent whose one tool is asked to weigh args, then ends.
func weigher(id crumbs.AgentID, args string, calls int) *agent.Definition {
	one := agent.Turn{}
	for range calls {
		one.ToolCalls = append(one.ToolCalls, agent.ScriptCall{Name: "tool_weigh", Args: json.RawMessage(args)})
	}
	return having(clerk(id, one, turn("Done.")), groupBench, "weigh", crumbs.EffectOnce)
}

// weigh is a tool that answers with the size of its arguments, or with so many
// bytes as it is asked for.
func weigh() tool.Tool {
	return tool.New("weigh", "Weigh.", func(_ tool.Context, args json.RawMessage, _ tool.Yield) (json.RawMessage, error) {
		var in struct {
			Bytes int `json:"bytes,string"`
		}
		if json.Unmarshal(args, &in) == nil && in.Bytes > 0 {
			return letters(in.Bytes), nil
		}
		return json.Marshal(len(args))
	}, tool.Effect(crumbs.EffectOnce))
}

// largest is the size of the largest field of the crumbs of a type, as a client
// gets them: whole.
func (s scene) largest(c *client.Client, run crumbs.RunID, typ, field string) (size int) {
	s.t.Helper()
	for item, err := range c.Follow(s.t.Context(), run) {
		if err != nil {
			s.t.Fatal(err)
		}
		var body map[string]json.RawMessage
		if err := json.Unmarshal(item.Raw, &body); err != nil {
			s.t.Fatal(err)
		}
		if body["dataref"] != nil {
			s.t.Errorf("%s: crumb %s reached the client as a reference", run, item.Type)
		}
		if item.Type == typ {
			size = max(size, len(body[field]))
			if item.Suspended { // a run that waits is followed on
				break
			}
		}
	}
	return size
}

// Every kind of body, just under what travels in a message, just over it, and over
// what is taken at all: it arrives whole, or is refused with PAYLOAD_TOO_LARGE.
func TestOversize_EveryBody_F142(t *testing.T) {
	t.Parallel()
	s := realTime(t)
	s.Gateway()
	s.Approvals()
	s.Tools(groupBench, weigh())
	s.apply(
		clerk("talker", turn("Done.")),
		weigher("caller", `{"text":"{{ .input }}"}`, 1), weigher("callers", `{"text":"{{ .input }}"}`, 3),
		weigher("getter", `{"bytes":"{{ .input }}"}`, 1),
		asking(weigher("asker", `{"text":"{{ .input }}"}`, 1), "weigh"),
		human(clerk("listener", turn("", question("tell")), turn("Done.")), "tell", 0),
	)
	s.Orchestrator()
	c := client.New(s.Mesh.Conn)
	start := func(agent crumbs.AgentID, run crumbs.RunID, input json.RawMessage) error {
		_, err := c.Start(t.Context(), client.Request{Agent: agent, RunID: run, Input: input})
		return err
	}
	const under, over = mesh.InlineMax - room, mesh.InlineMax + room
	refused := func(what string, err error) {
		t.Helper()
		if fault.CodeOf(err) != fault.PayloadTooLarge {
			t.Errorf("%s: got %v", what, err)
		}
	}

	for name, size := range map[string]int{"under": under, "over": over, "most": mesh.PayloadMax - room} {
		run := crumbs.RunID("request_" + name)
		if err := start("talker", run, letters(size)); err != nil {
			t.Fatal(err)
		}
		s.WaitEnd(run)
		if got := s.largest(c, run, crumbs.TypeRunStarted, "input"); got != size {
			t.Errorf("%s: the input has %d bytes, want %d", run, got, size)
		}
	}
	for name, size := range map[string]int{"more": mesh.PayloadMax + room, "than NATS takes": 2 << 20} {
		refused("a request of "+name, start("talker", "request_refused", letters(size)))
	}

	// One call's arguments are under or over; those of three are a large answer of the model.
	for name, size := range map[string]int{"under": under, "over": mesh.InlineMax - 64} {
		for _, agent := range []crumbs.AgentID{"caller", "callers", "asker"} {
			run := crumbs.RunID(string(agent) + "_" + name)
			if err := start(agent, run, letters(size-len(`{"text":}`))); err != nil {
				t.Fatal(err)
			}
			if agent == "asker" {
				s.WaitSuspended(run)
				if got := s.largest(c, run, crumbs.TypeHumanRequired, "args"); got != size {
					t.Errorf("%s: the question shows %d bytes, want %d", run, got, size)
				}
				if _, err := s.Approve(crumbs.ToolCallID(run, 1, 0)); err != nil {
					t.Fatal(err)
				}
			}
			s.WaitEnd(run)
			account(t, s.Fleet, run).completed("Done.")
			if got := s.largest(c, run, crumbs.TypeToolCalled, "args"); got != size {
				t.Errorf("%s: the call has %d bytes, want %d", run, got, size)
			}
			if got := s.largest(c, run, crumbs.TypeToolResulted, "result"); got != len("000000") {
				t.Errorf("%s: the tool weighed a number of %d digits", run, got)
			}
		}
	}

	for name, size := range map[string]int{"under": under, "over": over, "most": tool.ResultMax, "more": tool.ResultMax + 1} {
		run := crumbs.RunID("result_" + name)
		input, err := json.Marshal(size)
		if err != nil {
			t.Fatal(err)
		}
		if err := start("getter", run, input); err != nil {
			t.Fatal(err)
		}
		s.WaitEnd(run)
		if name == "more" {
			h := account(t, s.Fleet, run).completed("Done.").ended("1.0:error")
			refused("a result", h.errors[crumbs.ToolCallID(run, 1, 0)].Error)
			continue
		}
		if got := s.largest(c, run, crumbs.TypeToolResulted, "result"); got != size {
			t.Errorf("%s: the result has %d bytes, want %d", run, got, size)
		}
	}

	// What a person says stands in a message: it is signed, and a row of a bucket holds it.
	if err := start("listener", "answer", nil); err != nil {
		t.Fatal(err)
	}
	if err := start("asker", "edited", letters(100)); err != nil {
		t.Fatal(err)
	}
	for run, answer := range map[crumbs.RunID]func(size int) decision.Answer{
		"answer": func(size int) decision.Answer {
			return decision.Answer{Outcome: crumbs.DecideAnswer, Response: letters(size)}
		},
		"edited": func(size int) decision.Answer {
			return decision.Answer{Outcome: crumbs.DecideApprove, Args: json.RawMessage(`{"text":` + string(letters(size-len(`{"text":}`))) + `}`)}
		},
	} {
		s.WaitSuspended(run)
		for _, size := range []int{over, 600 << 10, 2 << 20} {
			a := answer(size)
			a.CheckpointID = crumbs.ToolCallID(run, 1, 0)
			_, err := s.Decide(a)
			refused("a large "+string(run), err)
		}
		a := answer(under)
		a.CheckpointID = crumbs.ToolCallID(run, 1, 0)
		if _, err := s.Decide(a); err != nil {
			t.Fatal(err)
		}
		s.WaitEnd(run)
	}
	if got := s.largest(c, "answer", crumbs.TypeHumanResumed, "response"); got != under {
		t.Errorf("the answer has %d bytes, want %d", got, under)
	}
	if got := s.largest(c, "edited", crumbs.TypeToolCalled, "args"); got != under {
		t.Errorf("the edited call has %d bytes, want %d", got, under)
	}
	if dead, _ := s.Stream(crumbs.StreamDead); dead != 0 {
		t.Errorf("%d dead letters", dead)
	}
}
