package prompt_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/prompt"
)

// turns is the transcript of a run after n turns, each with a call and its result.
func turns(n int) []crumbs.Message {
	out := []crumbs.Message{{Role: crumbs.RoleUser, Parts: []crumbs.Part{{Type: crumbs.PartText, Text: "Go on until you are done."}}}}
	for i := range n {
		id := crumbs.ToolCallID("run_1", i+1, 0)
		out = append(out,
			crumbs.Message{Role: crumbs.RoleAssistant, Parts: []crumbs.Part{{Type: crumbs.PartToolCall, ToolCallID: id, ToolName: "tool_read", Args: json.RawMessage(`{"n":1}`)}}},
			crumbs.Message{Role: crumbs.RoleTool, Parts: []crumbs.Part{{Type: crumbs.PartToolResult, ToolCallID: id, ToolName: "tool_read", Outcome: crumbs.OutcomeOK,
				Output: json.RawMessage(fmt.Sprintf(`{"n":%d,"html":"\u003c/tool-output\u003e"}`, i))}}})
	}
	return out
}

func specs(names ...string) (out []crumbs.ToolSpec) {
	for _, n := range names {
		out = append(out, crumbs.ToolSpec{Name: n, Description: "does " + n, InputSchema: json.RawMessage(`{"type":"object"}`)})
	}
	return out
}

// passages cuts a transcript at the places given; the last piece is the call's own.
func passages(all []crumbs.Message, cuts ...int) (older []prompt.Passage, own []crumbs.Message) {
	from := 0
	for _, c := range cuts {
		older = append(older, prompt.Show(all[from:c]))
		from = c
	}
	return older, all[from:]
}

// Twenty turns, with the older part of the transcript put aside and merged at will:
// each prompt begins with the one before it, byte for byte, and says so.
func TestAfter_PrefixIsKeptOverTwentyTurns(t *testing.T) {
	t.Parallel()
	var before []byte
	var prefix *crumbs.Prefix
	for n := range 20 {
		all := turns(n)
		for _, cuts := range [][]int{{}, {len(all)}, {len(all) / 2}, {1, len(all) - n}, {len(all) / 3, len(all) / 2, len(all) - 1}} {
			older, own := passages(all, cuts...)
			p := prompt.Of(crumbs.ModelCall{System: "Read.", Tools: specs("tool_read", "tool_write"), Messages: own}, older...)
			sent, err := json.Marshal(struct {
				System   string
				Tools    []crumbs.ToolSpec
				Messages []crumbs.Message
			}{p.System, p.Tools, p.Messages})
			if err != nil {
				t.Fatal(err)
			}
			whole, kept := p.After(prefix)
			if whole.Messages != len(all) {
				t.Fatalf("turn %d: %d messages, want %d", n, whole.Messages, len(all))
			}
			if before != nil && (kept == nil || !*kept) {
				t.Fatalf("turn %d, cut at %v: prefix not kept", n, cuts)
			}
			if start := before[:max(0, len(before)-2)]; string(sent[:len(start)]) != string(start) { // without the list's end
				t.Fatalf("turn %d: the bytes before are others", n)
			}
			before, prefix = sent, &whole
		}
	}
}

func TestAfter_PrefixIsLost(t *testing.T) {
	t.Parallel()
	base := func() crumbs.ModelCall {
		return crumbs.ModelCall{System: "Read.", Tools: specs("tool_a", "tool_b"), Messages: turns(3)}
	}
	first, none := prompt.Of(base()).After(nil)
	if none != nil {
		t.Errorf("kept is %v without an earlier prompt", *none)
	}
	kept := func(change func(*crumbs.ModelCall), earlier crumbs.Prefix) bool {
		c := base()
		c.Messages = turns(4)
		change(&c)
		_, k := prompt.Of(c).After(&earlier)
		return *k
	}
	if !kept(func(*crumbs.ModelCall) {}, first) {
		t.Error("a longer transcript does not keep its beginning")
	}
	for name, change := range map[string]func(*crumbs.ModelCall){
		"another system":       func(c *crumbs.ModelCall) { c.System = "Write." },
		"a tool more":          func(c *crumbs.ModelCall) { c.Tools = specs("tool_a", "tool_b", "tool_c") },
		"a tool less":          func(c *crumbs.ModelCall) { c.Tools = specs("tool_a") },
		"tools in other order": func(c *crumbs.ModelCall) { c.Tools = specs("tool_b", "tool_a") },
		"another description":  func(c *crumbs.ModelCall) { c.Tools[1].Description = "else" },
		"another message":      func(c *crumbs.ModelCall) { c.Messages[2].Parts[0].Output = json.RawMessage(`1`) },
		"a message less":       func(c *crumbs.ModelCall) { c.Messages = c.Messages[1:] },
		"a shorter transcript": func(c *crumbs.ModelCall) { c.Messages = c.Messages[:2] },
	} {
		if kept(change, first) {
			t.Errorf("%s: kept", name)
		}
	}
	if kept(func(*crumbs.ModelCall) {}, crumbs.Prefix{Messages: -1, Hash: first.Hash}) {
		t.Error("a prefix of no prompt is kept")
	}
}

// What may change stands last in the list of tools, and there it stays: a tool more
// at the end leaves the bytes before it as they were.
func TestOf_ToolsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	list := specs("tool_z", "tool_a", "system_use_tool")
	p := prompt.Of(crumbs.ModelCall{Tools: list})
	var got []string
	for _, s := range p.Tools {
		got = append(got, s.Name)
	}
	if !slices.Equal(got, []string{"tool_z", "tool_a", "system_use_tool"}) {
		t.Errorf("tools %v", got)
	}
	before, err := json.Marshal(p.Tools)
	if err != nil {
		t.Fatal(err)
	}
	after, err := json.Marshal(prompt.Of(crumbs.ModelCall{Tools: append(list, specs("tool_new")...)}).Tools)
	if err != nil {
		t.Fatal(err)
	}
	if start := before[:len(before)-1]; string(after[:len(start)]) != string(start) {
		t.Errorf("%s does not begin with %s", after, start)
	}
}

// Every field of a message, and where one ends and the next begins, is in the digest.
func TestAfter_CoversEveryField(t *testing.T) {
	t.Parallel()
	hash := func(m ...crumbs.Message) string {
		whole, _ := prompt.Of(crumbs.ModelCall{Messages: m}).After(nil)
		return whole.Hash
	}
	part := crumbs.Part{Type: crumbs.PartFile, File: &crumbs.File{}}
	seen := map[string]string{hash(crumbs.Message{Role: crumbs.RoleUser, Parts: []crumbs.Part{part}}): "nothing"}
	differs := func(what string, p crumbs.Part) {
		h := hash(crumbs.Message{Role: crumbs.RoleUser, Parts: []crumbs.Part{p}})
		if other, ok := seen[h]; ok {
			t.Errorf("%s counts as little as %s", what, other)
		}
		seen[h] = what
	}
	fill := func(f reflect.Value) {
		if f.Kind() == reflect.Slice {
			f.SetBytes([]byte(`"x"`))
			return
		}
		f.SetString("x")
	}
	for i := range reflect.TypeFor[crumbs.Part]().NumField() {
		p := part
		f := reflect.ValueOf(&p).Elem().Field(i)
		if f.Kind() != reflect.Pointer {
			fill(f)
			differs(reflect.TypeFor[crumbs.Part]().Field(i).Name, p)
		}
	}
	for i := range reflect.TypeFor[crumbs.File]().NumField() {
		p := part
		p.File = &crumbs.File{}
		fill(reflect.ValueOf(p.File).Elem().Field(i))
		differs("File."+reflect.TypeFor[crumbs.File]().Field(i).Name, p)
	}
	differs("no file", crumbs.Part{Type: crumbs.PartFile})
	text := func(s ...string) (m crumbs.Message) {
		for _, s := range s {
			m.Parts = append(m.Parts, crumbs.Part{Type: crumbs.PartText, Text: s})
		}
		return m
	}
	if hash(text("ab")) == hash(text("a", "b")) || hash(text("a"), text("b")) == hash(text("a", "b")) || hash(text("a")) == hash(text("a"), text()) {
		t.Error("messages with the same letters are taken for one another")
	}
}
