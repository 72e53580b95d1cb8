package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template"
	"text/template/parse"
)

// Bounds of one template. Scripts come with definitions, also over the wire, so
// a template must not be able to keep a gateway busy or fill its memory.
const (
	loopsMax = 10_000 // turns of all loops together
	widthMax = 3      // digits of a width or precision in printf
)

var (
	// wholeJSONRE matches a string that is one action ending in `| json`.
	wholeJSONRE = regexp.MustCompile(`^\s*\{\{-?[^{}]*\|\s*json\s*-?\}\}\s*$`)
	widthRE     = regexp.MustCompile(fmt.Sprintf(`%%[^a-zA-Z%%]*([0-9]{%d,}|\*)`, widthMax+1))

	errLoops    = fmt.Errorf("its loops take more than %d turns", loopsMax)
	errTooLong  = fmt.Errorf("a text is longer than %d bytes", RenderBytesMax)
	errTemplate = errors.New("define, block and template are not taken here: write the text out")
)

// isTemplate reports whether text has an action; most have none and cost nothing.
func isTemplate(text string) bool { return strings.Contains(text, "{{") }

// render executes a template over dot.
func render(text string, dot map[string]any) (string, error) {
	t, err := parseTemplate(text)
	if err != nil {
		return "", err
	}
	var out limited
	if err := t.Execute(&out, dot); err != nil {
		return "", explained(t, dot, err)
	}
	return out.text.String(), nil
}

// parseTemplate reads a template for one execution: its loops count together.
func parseTemplate(text string) (*template.Template, error) {
	turns := 0
	tick := func() (string, error) {
		if turns++; turns > loopsMax {
			return "", errLoops
		}
		return "", nil
	}
	t, err := template.New("text").Option("missingkey=error").Funcs(functions(tick)).Parse(text)
	if err != nil {
		return nil, err
	}
	if len(t.Templates()) > 1 || t.Tree == nil {
		return nil, errTemplate
	}
	if err := bind(t.Root, tickAction(tick)); err != nil {
		return nil, err
	}
	return t, nil
}

// functions are json and the built-in functions that make text, bounded.
func functions(tick func() (string, error)) template.FuncMap {
	return template.FuncMap{
		"tick":     tick,
		"json":     func(v any) (string, error) { return bounded(string(jsonValue(v))) },
		"html":     func(v ...any) (string, error) { return bounded(template.HTMLEscaper(v...)) },
		"js":       func(v ...any) (string, error) { return bounded(template.JSEscaper(v...)) },
		"urlquery": func(v ...any) (string, error) { return bounded(template.URLQueryEscaper(v...)) },
		"print":    func(v ...any) (string, error) { return bounded(fmt.Sprint(v...)) },
		"println":  func(v ...any) (string, error) { return bounded(fmt.Sprintln(v...)) },
		"printf": func(format string, v ...any) (string, error) {
			if widthRE.MatchString(format) {
				return "", fmt.Errorf("printf: expected widths of at most %d digits", widthMax)
			}
			return bounded(fmt.Sprintf(format, v...))
		},
	}
}

func bounded(s string) (string, error) {
	if len(s) > RenderBytesMax {
		return "", errTooLong
	}
	return s, nil
}

// jsonValue is v, which was decoded from JSON, as JSON.
func jsonValue(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []byte("null")
	}
	return bytes.TrimSpace(b.Bytes())
}

// tickAction is the action {{tick}}.
func tickAction(tick func() (string, error)) parse.Node {
	trees, err := parse.Parse("tick", "{{tick}}", "", "", map[string]any{"tick": tick})
	if err != nil {
		panic("the template {{tick}} does not parse: " + err.Error())
	}
	return trees["tick"].Root.Nodes[0]
}

// bind puts a tick in front of every loop's body and refuses calls of templates.
func bind(list *parse.ListNode, tick parse.Node) error {
	if list == nil {
		return nil
	}
	for _, n := range list.Nodes {
		var err error
		switch v := n.(type) {
		case *parse.TemplateNode:
			err = errTemplate
		case *parse.IfNode:
			err = errors.Join(bind(v.List, tick), bind(v.ElseList, tick))
		case *parse.WithNode:
			err = errors.Join(bind(v.List, tick), bind(v.ElseList, tick))
		case *parse.RangeNode:
			err = errors.Join(bind(v.List, tick), bind(v.ElseList, tick))
			v.List.Nodes = append([]parse.Node{tick}, v.List.Nodes...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// limited is a buffer of RenderBytesMax.
type limited struct{ text strings.Builder }

func (l *limited) Write(p []byte) (int, error) {
	if l.text.Len()+len(p) > RenderBytesMax {
		return 0, errTooLong
	}
	return l.text.Write(p)
}

// templateFault is what a template's error says, without the names that
// text/template puts in front: the text has no file of its own.
func templateFault(err error) string {
	var m *missing
	if errors.As(err, &m) {
		return "the template fails at " + clipTo(m.at, templateFaultMax) + ": " + m.Error()
	}
	text := strings.TrimPrefix(err.Error(), "template: ")
	if rest, ok := strings.CutPrefix(text, "text:"); ok {
		text = "line " + rest
	}
	text = strings.ReplaceAll(text, `executing "text" at `, "at ")
	return "the template fails: " + clipTo(firstLine(text), templateFaultMax)
}

// templateFaultMax is the number of bytes of a template's complaint in a message.
const templateFaultMax = 300
