package core

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Opening is a request whose beforeRun hooks are called: it has no crumb yet.
type Opening struct {
	Warns []string `json:"warns,omitempty"`
}

// Ending is a run that has its output and waits for hooks.
type Ending struct {
	Output       Value  `json:"output"`
	FinishReason string `json:"finishReason"`
	Closed       bool   `json:"closed,omitempty"` // only onSuspend hooks are still to be told
}

// admitted takes a request: its beforeRun hooks, then the run opens.
func (d *decision) admitted(r *Request) {
	d.s.Run.Skill, d.s.Run.Unserved = r.Skill, r.Unserved
	d.s.Opening = &Opening{Warns: r.Warns}
	if len(chain(d.p, crumbs.HookBeforeRun, nil)) == 0 {
		d.readied(r.Input, crumbs.HookAnswer{}, nil)
		return
	}
	d.s.Chain = &Chain{Point: crumbs.HookBeforeRun, Input: d.value(r.Input)}
	d.begin(d.s.Chain, nil)
}

// readied opens a run with the input that its hooks left.
func (d *decision) readied(input json.RawMessage, a crumbs.HookAnswer, by []string) {
	if a.Action == crumbs.HookShortCircuit {
		d.s.By, by = by[len(by)-1:], by[:len(by)-1]
	}
	d.opened(input, by)
	if a.Action == crumbs.HookShortCircuit {
		d.conclude(a.Output, finishStop)
		return
	}
	if len(by) > 0 { // without hooks it was checked when it was admitted
		if err := fits(d.p.Agent.Input, fault.InvalidInput, input); err != nil {
			err.Message += "; the hook " + strings.Join(by, ", ") + " changed it"
			d.end(Failed, &Result{Error: err})
			return
		}
	}
	d.say(crumbs.Message{Role: crumbs.RoleUser, Parts: []crumbs.Part{{Type: crumbs.PartText, Text: inputText(input)}}})
	d.startModel(1)
}

// opened tells that the run began; a run that has, tells nothing.
func (d *decision) opened(input json.RawMessage, by []string) {
	o := d.s.Opening
	if o == nil {
		return
	}
	d.s.Opening = nil
	if d.p.Tools.Hooks != nil {
		d.s.Input = d.value(input)
	}
	d.resumed = append(d.resumed, &crumbs.RunStarted{Base: d.base(crumbs.TypeRunStarted), Input: input, Skill: d.s.Run.Skill, AgentRevision: d.s.Run.Revision,
		ToolSet: d.s.Run.ToolSet, Tools: d.p.Tools.Leaves(), Parent: d.s.Run.Parent, Warnings: o.Warns, Hooks: by})
}

// fits checks a value against a compiled schema of the agent, if it has one.
func fits(of func() (*argument.Schema, error), code fault.Code, value json.RawMessage) *fault.Error {
	schema, err := of()
	if err != nil {
		return fault.From(err)
	}
	if schema == nil {
		return nil
	}
	if err := schema.Check(code, value); err != nil {
		return fault.From(err)
	}
	return nil
}

// final takes the last answer of the model, one without calls.
func (d *decision) final(r *crumbs.ModelResult, message crumbs.Message) {
	reason := r.FinishReason
	if reason == "" || reason == finishToolCalls || reason == "other" {
		reason = finishStop
	}
	c := &Closing{Attempt: r.Attempt, FinishReason: r.FinishReason, Usage: r.Usage, Cost: r.Cost, Deltas: r.Deltas, DurationMs: r.DurationMs, PrefixKept: r.PrefixKept}
	switch d.p.Agent.Output.Format {
	case agent.FormatJSON:
		d.structured(c, message, reason)
	case agent.FormatCustom:
		d.keep(c, message)
		d.s.Closing = c
		d.s.Ending = &Ending{FinishReason: reason}
		d.parse()
	default:
		d.written(c, message, reason)
	}
}

// written takes the last answer of a model that writes text. The text of all steps is
// the output.
func (d *decision) written(c *Closing, message crumbs.Message, reason string) {
	if len(d.p.Agent.OutputSchema) > 0 {
		whole := d.joined(append(slices.Clip(d.s.Text), Value{Inline: text(textOf(message))}))
		if unfit := fits(d.p.Agent.OutputOf, fault.OutputInvalid, whole); unfit != nil {
			c.Error = unfit
			d.keep(c, message)
			d.attemptFailed(c)
			return
		}
	}
	d.kept(c, message)
	d.conclude(d.joined(d.s.Text), reason)
}

// keep puts the answer of an attempt into the record.
func (d *decision) keep(c *Closing, message crumbs.Message) {
	b, err := json.Marshal(message)
	if err != nil {
		panic("core: a message does not encode: " + err.Error())
	}
	c.Message = d.value(b)
}

// kept tells of an attempt whose answer stands, and adds the answer to what the
// model and the output know.
func (d *decision) kept(c *Closing, message crumbs.Message) {
	d.s.Closing, c.said = c, textOf(message)
	d.closeAttempt(nil)
	d.fileParts(message)
	if len(message.Parts) > 0 {
		d.say(message)
	}
	d.write(textOf(message))
}

// write adds to the text of the run.
func (d *decision) write(words string) {
	if words == "" {
		return
	}
	d.s.Text = append(d.s.Text, d.value(text(words)))
	d.foldText(ValueMax)
}

// structured takes the answer of a model that was asked for JSON. One that does not
// fit is sent back to be mended as often as output.repair says; then it failed.
func (d *decision) structured(c *Closing, message crumbs.Message, reason string) {
	said := strings.TrimSpace(textOf(message))
	unfit := jsonFault(said)
	if unfit == nil {
		unfit = fits(d.p.Agent.OutputOf, fault.OutputInvalid, json.RawMessage(said))
	}
	switch {
	case unfit == nil:
		d.kept(c, message)
		d.conclude(json.RawMessage(said), reason)
	case d.s.Repairs < d.p.Agent.Output.Repair:
		d.s.Repairs++
		c.Error, c.said = unfit, textOf(message)
		d.s.Closing = c
		d.closeAttempt(nil)
		if len(message.Parts) > 0 {
			d.say(message)
		}
		d.say(crumbs.Message{Role: crumbs.RoleUser, Parts: []crumbs.Part{{Type: crumbs.PartText,
			Text: fmt.Sprintf("That answer cannot be used: %s. Answer again with JSON that fits, and with nothing else.", unfit.Message)}}})
		d.startModel(1)
	default:
		c.Error = unfit
		d.keep(c, message)
		d.attemptFailed(c)
	}
}

func jsonFault(said string) *fault.Error {
	if !json.Valid([]byte(said)) {
		return fault.New(fault.OutputInvalid, "the model's answer is not one JSON document")
	}
	return nil
}

// parse sends the text of the run to the parser of its format.
func (d *decision) parse() {
	d.s.Errands++
	d.s.Parse = &Errand{ID: crumbs.ParseCallID(d.s.Run.ID, d.s.Step, d.s.Errands)}
	d.send(d.s.Parse, d.p.Tools.Parser.Program)
}

// parseInput is what the parser gets: the text of all steps, the last one included.
func parseInput(s State, load Loader) (crumbs.ParseInput, error) {
	var whole strings.Builder
	for _, v := range s.Text {
		raw, err := v.read(load)
		if err != nil {
			return crumbs.ParseInput{}, err
		}
		var piece string
		if err := json.Unmarshal(raw, &piece); err != nil {
			return crumbs.ParseInput{}, fault.Wrap(fault.InternalError, err, "the text of %s does not decode", s.Run.ID)
		}
		whole.WriteString(piece)
	}
	if s.Closing != nil {
		raw, err := s.Closing.Message.read(load)
		if err != nil {
			return crumbs.ParseInput{}, err
		}
		var m crumbs.Message
		if err := json.Unmarshal(raw, &m); err != nil {
			return crumbs.ParseInput{}, fault.Wrap(fault.InternalError, err, "the answer of %s does not decode", s.Run.ID)
		}
		whole.WriteString(textOf(m))
	}
	return crumbs.ParseInput{Text: whole.String()}, nil
}

// parsed takes the value that the parser made.
func (d *decision) parsed(value json.RawMessage) {
	if len(value) == 0 {
		value = json.RawMessage("null")
	}
	if unfit := fits(d.p.Agent.OutputOf, fault.OutputInvalid, value); unfit != nil {
		d.unparsed(unfit)
		return
	}
	reason := d.s.Ending.FinishReason
	d.s.Parse, d.s.Ending = nil, nil
	if c := d.s.Closing; c != nil {
		d.kept(c, d.message(c.Message))
	}
	d.conclude(value, reason)
}

// unparsed takes a text that the parser could not read: the model attempt that
// ended it failed. A text that the bound on steps cut off has no such attempt.
func (d *decision) unparsed(cause *fault.Error) {
	d.s.Parse, d.s.Ending = nil, nil
	c := d.s.Closing
	if c == nil {
		d.end(Failed, &Result{Error: cause})
		return
	}
	c.Error = cause
	d.attemptFailed(c)
}

// conclude takes the output of the run: its afterRun hooks, then the run ends.
func (d *decision) conclude(output json.RawMessage, reason string) {
	if len(chain(d.p, crumbs.HookAfterRun, nil)) == 0 {
		d.close(output, reason)
		return
	}
	d.s.Ending = &Ending{Output: d.value(output), FinishReason: reason}
	d.s.Chain = &Chain{Point: crumbs.HookAfterRun, Input: d.s.Input, Output: d.s.Ending.Output, DurationMs: d.since(d.s.Run.StartedAt)}
	d.begin(d.s.Chain, nil)
}

// close ends a run that has its output, once its onSuspend hooks heard of all its
// questions. What hooks made of the output is under the schema too.
func (d *decision) close(output json.RawMessage, reason string) {
	if len(d.s.By) > 0 {
		if unfit := fits(d.p.Agent.OutputOf, fault.OutputInvalid, output); unfit != nil {
			unfit.Message += "; the hook " + strings.Join(d.s.By, ", ") + " gave it"
			d.end(Failed, &Result{Error: unfit})
			return
		}
	}
	if len(d.s.Notices) > 0 {
		d.s.Ending = &Ending{Output: d.value(output), FinishReason: reason, Closed: true}
		return
	}
	d.end(Completed, &Result{Output: d.value(output), FinishReason: reason})
}

// fileParts tells of the files in a model's answer.
func (d *decision) fileParts(m crumbs.Message) {
	for _, part := range m.Parts {
		if part.Type == crumbs.PartFile && part.File != nil {
			d.steps = append(d.steps, &crumbs.FileGenerated{Base: d.base(crumbs.TypeFileGenerated), File: *part.File})
			d.s.Files = append(d.s.Files, *part.File)
		}
	}
}
