package cli

import (
	"encoding/json"
	"strings"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/render"
	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// ask shows a question with all a decision needs, the arguments whole, and
// prompts for the answer.
func (i *invocation) ask(q question) {
	style := i.std.StyleOf(i.std.Err)
	who := render.OneLine(q.ToolName)
	if q.Kind == crumbs.KindApproval {
		i.say("\n%s", style.Bold(who+" asks for approval"))
	} else {
		i.say("\n%s", style.Bold(who+" asks"))
	}
	if q.Prompt != "" {
		i.say("  %s", strings.ReplaceAll(render.Plain(q.Prompt), "\n", "\n  "))
	}
	i.say("%s", render.Document(q.Args, "  "))
	if q.Kind != crumbs.KindApproval {
		i.say("  takes: %s", render.Answer(q.AnswerSchema))
	}
	i.promptFor(q)
}

// promptFor asks for the answer to a question that is on the screen.
func (i *invocation) promptFor(q question) {
	style := i.std.StyleOf(i.std.Err)
	if q.Kind == crumbs.KindApproval {
		i.prompt(style.Bold("Approve? ") + "y = yes, n REASON = no, Ctrl-D = decide later: ")
		return
	}
	i.prompt(style.Bold("Answer? ") + answerForm(q) + ", Ctrl-D = later: ")
}

// prompt writes text without a line break: the answer is typed behind it.
func (i *invocation) prompt(text string) {
	_, _ = i.std.Err.Write([]byte(text))
}

// answerForm says what is taken as an answer.
func answerForm(q question) string {
	if takesText(q.AnswerSchema) {
		return "text, Enter alone = an empty text"
	}
	return "JSON or text"
}

// takesText reports whether an answer is always a text.
func takesText(schema json.RawMessage) bool {
	var s struct {
		Type any `json:"type"`
	}
	return json.Unmarshal(schema, &s) == nil && s.Type == "string"
}

// parseAnswer reads what a person typed. A hint instead of an answer says what
// is taken: an approval needs its own word, so that an Enter too much never is one.
func parseAnswer(q question, line string) (a client.Answer, hint string) {
	if q.Kind == crumbs.KindApproval {
		return parseVerdict(line)
	}
	if takesText(q.AnswerSchema) {
		return client.Answer{Outcome: crumbs.DecideAnswer, Value: quoted(line)}, ""
	}
	if strings.TrimSpace(line) == "" {
		return a, `Type the answer (an empty text is ""), or Ctrl-D to answer later: `
	}
	value, err := document(line)
	if err != nil {
		return a, render.OneLine(err.Error()) + "\nAnswer again, or Ctrl-D to answer later: "
	}
	return client.Answer{Outcome: crumbs.DecideAnswer, Value: value}, ""
}

func parseVerdict(line string) (a client.Answer, hint string) {
	word, reason, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch strings.ToLower(word) {
	case "y", "yes":
		if strings.TrimSpace(reason) == "" {
			return client.Answer{Outcome: crumbs.DecideApprove}, ""
		}
	case "n", "no":
		return client.Answer{Outcome: crumbs.DecideReject, Reason: strings.TrimSpace(reason)}, ""
	}
	return a, "Type y to approve, n to reject (n REASON says why), or Ctrl-D to decide later: "
}
