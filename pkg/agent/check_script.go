package agent

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

func (c *checker) scripts(scripts map[string]Script) {
	if n := len(scripts); n > ScriptsMax {
		c.file = agentFile
		c.bad(nil, "the agent has %d scripts: expected at most %d", n, ScriptsMax)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		s := scripts[name]
		c.file = scriptsDir + "/" + name + yamlExt
		c.name(nil, "script", name)
		if s.Name != name {
			c.bad(place{"name"}, "expected %q, the key of the script, got %s", name, quote(s.Name))
		}
		at := place{"turns"}
		if n := len(s.Turns); n < 1 || n > TurnsMax {
			c.bad(at, "expected 1 to %d turns, got %d", TurnsMax, n)
			continue
		}
		for i, t := range s.Turns {
			c.turn(at.index(i), t)
		}
	}
}

func (c *checker) turn(at place, t Turn) {
	c.template(at.key("text"), t.Text)
	c.template(at.key("reasoning"), t.Reasoning)
	if n := len(t.Chunks); n > ChunksMax {
		c.bad(at.key("chunks"), "expected at most %d chunks, got %d", ChunksMax, n)
	}
	for i, chunk := range t.Chunks {
		c.template(at.key("chunks").index(i), chunk)
	}
	c.within(at.key("delayMs"), t.DelayMs, 0, DelayMsMax)
	if len(t.JSON) > 0 {
		c.templates(at.key("json"), t.JSON)
	}
	if said := t.texts(); len(said) > 1 {
		c.bad(at.key(said[1]), "expected one of text, chunks or json in a turn, got %s", strings.Join(said, " and "))
	}
	if t.FinishReason != "" {
		c.oneOf(at.key("finishReason"), t.FinishReason, FinishStop, FinishToolCalls, FinishLength, FinishContentFilter, FinishOther)
	}
	c.usage(at.key("usage"), t.Usage)
	c.files(at.key("files"), t.Files)
	c.calls(at.key("toolCalls"), t.ToolCalls)
	c.turnError(at, t)
}

// texts are the fields of t that say its text.
func (t Turn) texts() []string {
	var said []string
	for _, f := range []struct {
		name string
		set  bool
	}{{"text", t.Text != ""}, {"chunks", len(t.Chunks) > 0}, {"json", len(t.JSON) > 0}} {
		if f.set {
			said = append(said, f.name)
		}
	}
	return said
}

func (c *checker) calls(at place, calls []ScriptCall) {
	if n := len(calls); n > CallsMax {
		c.bad(at, "expected at most %d calls in a turn, got %d", CallsMax, n)
	}
	for i, call := range calls {
		at := at.index(i)
		if n := len(call.Name); n < 1 || n > crumbs.AttrMax || !utf8.ValidString(call.Name) {
			c.bad(at.key("name"), "expected the model's name of a tool, like tool_read_document, got %s", quote(call.Name))
		}
		if len(call.Args) > 0 {
			c.templates(at.key("args"), call.Args)
		}
	}
}

func (c *checker) files(at place, files []ScriptFile) {
	if n := len(files); n > crumbs.FilesMax {
		c.bad(at, "expected at most %d files in a turn, got %d", crumbs.FilesMax, n)
	}
	for i, f := range files {
		at := at.index(i)
		c.fail(at, crumbs.CheckFile(f.Name, f.MimeType))
		c.template(at.key("text"), f.Text)
		if (f.Text == "") == (f.Base64 == "") {
			c.bad(at, "expected what stands in the file, as text or as base64")
		}
		if _, err := base64.StdEncoding.DecodeString(f.Base64); err != nil {
			c.bad(at.key("base64"), "expected base64 (RFC 4648, with padding), got %s", quote(f.Base64))
		}
	}
}

func (c *checker) usage(at place, u *crumbs.Usage) {
	if u == nil {
		return
	}
	for _, n := range []int64{u.InputTokens, u.OutputTokens, u.TotalTokens, u.CacheReadTokens, u.CacheWriteTokens, u.ReasoningTokens} {
		if n < 0 {
			c.bad(at, "expected numbers of tokens from 0 on, got %d", n)
		}
	}
}

func (c *checker) turnError(at place, t Turn) {
	if t.Error == nil {
		return
	}
	c.within(at.key("error").key("status"), int64(t.Error.Status), 400, 599)
	c.within(at.key("error").key("retryAfterMs"), t.Error.RetryAfterMs, 0, RetryAfterMsMax)
	if len(t.ToolCalls) > 0 || len(t.Files) > 0 || t.FinishReason != "" || len(t.JSON) > 0 {
		c.bad(at.key("error"), "a turn that fails has no toolCalls, files, json or finishReason: text or chunks before the failure are all it can say")
	}
}

// template checks that a text parses as a template.
func (c *checker) template(at place, text string) {
	if !isTemplate(text) {
		return
	}
	if _, err := parseTemplate(text); err != nil {
		c.bad(at, "%s", templateFault(err))
	}
}

// templates checks the strings of a JSON document.
func (c *checker) templates(at place, raw json.RawMessage) {
	if err := anyDocument(raw); err != nil {
		c.fail(at, err)
		return
	}
	if !isTemplate(string(raw)) {
		return
	}
	_, _ = rewrite(raw, at, func(at place, s string) json.RawMessage { // anyDocument vouches for the JSON
		c.template(at, s)
		return jsonString(s)
	})
}
