package schemas_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/schemas"
)

// asyncAPI is what the tests read of asyncapi.yaml; test/asyncapi validates the
// whole of it with the official parser.
type asyncAPI struct {
	Channels map[string]struct {
		Address    string            `yaml:"address"`
		Parameters map[string]any    `yaml:"parameters"`
		Messages   map[string]apiRef `yaml:"messages"`
	} `yaml:"channels"`
	Operations map[string]struct {
		Action  string              `yaml:"action"`
		Channel apiRef              `yaml:"channel"`
		Tags    []map[string]string `yaml:"tags"`
	} `yaml:"operations"`
	Components struct {
		Parameters map[string]struct {
			Enum []string `yaml:"enum"`
		} `yaml:"parameters"`
		Messages map[string]struct {
			Name    string `yaml:"name"`
			Title   string `yaml:"title"`
			Payload apiRef `yaml:"payload"`
		} `yaml:"messages"`
	} `yaml:"components"`
}

type apiRef struct {
	Ref string `yaml:"$ref"`
}

func (r apiRef) last() string { return r.Ref[strings.LastIndex(r.Ref, "/")+1:] }

func readAsyncAPI(t *testing.T) asyncAPI {
	t.Helper()
	var api asyncAPI
	if err := yaml.Unmarshal(schemas.AsyncAPI(), &api); err != nil {
		t.Fatal(err)
	}
	return api
}

var parameter = regexp.MustCompile(`\{(\w+)\}`)

// addresses lists a channel's subjects: parameters with an enumeration are
// expanded, others are one token.
func (api asyncAPI) addresses(t *testing.T, channel string) []string {
	t.Helper()
	list := []string{api.Channels[channel].Address}
	for _, found := range parameter.FindAllStringSubmatch(list[0], -1) {
		if _, ok := api.Channels[channel].Parameters[found[1]]; !ok {
			t.Errorf("channel %s: parameter %s is not declared", channel, found[1])
		}
		values := api.Components.Parameters[found[1]].Enum
		if len(values) == 0 {
			values = []string{"x"}
		}
		var expanded []string
		for _, address := range list {
			for _, v := range values {
				expanded = append(expanded, strings.ReplaceAll(address, found[0], v))
			}
		}
		list = expanded
	}
	return list
}

// subjectPatterns are the constants Subject… of pkg/crumbs and the subjects of
// INBOX.
func subjectPatterns(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "pkg", "crumbs", "subject.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	patterns := crumbs.InboxSubjects()
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			if lit, ok := spec.Values[i].(*ast.BasicLit); ok && strings.HasPrefix(name.Name, "Subject") {
				value, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				patterns = append(patterns, value)
			}
		}
		return true
	})
	if len(patterns) <= len(crumbs.InboxSubjects()) {
		t.Fatal("found no Subject… constant")
	}
	return patterns
}

// matches reports whether a NATS pattern takes a subject.
func matches(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		if token == ">" {
			return len(s) > i
		}
		if i >= len(s) || token != "*" && token != s[i] {
			return false
		}
	}
	return len(p) == len(s)
}

func TestAsyncAPI_EverySubjectPatternHasAChannel(t *testing.T) {
	t.Parallel()
	api := readAsyncAPI(t)
	taken := map[string]bool{}
	for _, pattern := range subjectPatterns(t) {
		found := false
		for channel := range api.Channels {
			for _, address := range api.addresses(t, channel) {
				if matches(pattern, address) {
					found, taken[channel] = true, true
				}
			}
		}
		if !found {
			t.Errorf("%s has no channel in asyncapi.yaml", pattern)
		}
	}
	for channel, c := range api.Channels {
		if !taken[channel] && !endpoint(c.Address) {
			t.Errorf("channel %s (%s) is matched by no subject pattern of pkg/crumbs", channel, c.Address)
		}
	}
}

// endpoint reports whether a channel is that of a request-reply endpoint.
func endpoint(address string) bool { return strings.HasPrefix(address, "crumbmesh.") }

// The builders of pkg/crumbs and the addresses give the same subjects.
func TestAsyncAPI_AddressesAreWhatTheBuildersBuild(t *testing.T) {
	t.Parallel()
	api := readAsyncAPI(t)
	const x, call = "x", crumbs.CallID("x.1.0")
	built := map[string]string{
		crumbs.RequestSubject(x): "runRequest", crumbs.ControlSubject(x): "runControl",
		"run.start.x": "runStart", "run.child.x.x": "runChild",
		crumbs.ModelCallSubject(x, x): "modelCall", crumbs.ToolCallSubject(x, x): "toolCall",
		crumbs.ModelResultSubject(x, call, 1): "modelResult", crumbs.ToolResultSubject(x, call, 1): "toolResult",
		crumbs.DecisionSubject(x, call): "approvalDecision", crumbs.OrderSubject(call, 1): "runOrder",
		crumbs.TimerSetSubject(x, 1): "timerSet", crumbs.TimerDueSubject(x, 1): "timerDue",
		crumbs.PartialSubject(x, x, x): "partial", crumbs.CancelSubject(x): "cancel",
	}
	for _, typ := range crumbs.CrumbTypes() {
		built[crumbs.CrumbSubject(x, x, typ)] = "crumb"
	}
	for _, typ := range crumbs.DeltaTypes() {
		if typ != crumbs.TypeResultPartial {
			built[crumbs.ModelDeltaSubject(x, x, typ)] = "delta"
		}
	}
	for _, stream := range []string{crumbs.StreamRequests, crumbs.StreamInbox, crumbs.StreamTimers, crumbs.StreamModelCalls, crumbs.StreamToolCalls,
		crumbs.StreamCrumbs, "KV_" + crumbs.BucketRuns} {
		letter := crumbs.DeadSubject(crumbs.DeadLabel(stream, crumbs.ToolCallSubject(x, x)), x, 1)
		built[letter] = "dead"
		for _, act := range []string{crumbs.ActEdit, crumbs.ActRedrive, crumbs.ActAnswer, crumbs.ActClose} {
			built[letter+"."+act] = "deadNote"
		}
	}
	got := map[string]string{}
	for channel := range api.Channels {
		for _, address := range api.addresses(t, channel) {
			if !endpoint(address) {
				got[address] = channel
			}
		}
	}
	want := map[string]string{}
	for subject, channel := range built {
		subject = strings.NewReplacer("x-1-0-1", "x-x", "x-1-0", "x").Replace(subject)
		if strings.HasPrefix(subject, "timer.") {
			subject = strings.TrimSuffix(subject, "1") + "x"
		}
		if dead, ok := strings.CutPrefix(subject, "dead."); ok {
			subject = "dead." + strings.Replace(dead, ".1", ".x", 1)
		}
		want[subject] = channel
	}
	if !maps.Equal(got, want) {
		t.Errorf("addresses are\n%v\nbuilders give\n%v", got, want)
	}
}

// Each crumb, delta, command and outcome is a message of some channel, with its
// CloudEvents type and its schema; each channel is used by both sides.
func TestAsyncAPI_EveryBodyIsAMessageOfAChannel(t *testing.T) {
	t.Parallel()
	api := readAsyncAPI(t)
	onChannel := map[string]bool{}
	for name, channel := range api.Channels {
		for key, ref := range channel.Messages {
			if _, ok := api.Components.Messages[ref.last()]; !ok || key != ref.last() {
				t.Errorf("channel %s: message %s refers to %q", name, key, ref.Ref)
			}
			onChannel[ref.last()] = true
		}
	}
	have := map[string]bool{}
	for key, m := range api.Components.Messages {
		if !onChannel[key] {
			t.Errorf("message %s is on no channel", key)
		}
		if m.Payload.Ref == "" {
			continue // a dead letter is anything
		}
		have[m.Title] = true
		if strings.HasPrefix(m.Title, "dead.") || strings.HasPrefix(m.Title, "runs.") || strings.HasPrefix(m.Title, "mesh.") {
			if want := "./" + m.Title + ".v1.json"; m.Payload.Ref != want {
				t.Errorf("message %s: payload %s, want %s", key, m.Payload.Ref, want)
			}
			continue
		}
		if want := "./" + schemas.NameOf(m.Title) + ".v1.json"; m.Payload.Ref != want || m.Name != crumbs.CEType(m.Title) {
			t.Errorf("message %s: payload %s and name %s, want %s and %s", key, m.Payload.Ref, m.Name, want, crumbs.CEType(m.Title))
		}
	}
	for _, name := range schemas.Names() {
		if have[name] || !strings.HasPrefix(name, "wire.") && !strings.HasPrefix(name, "crumb.") && !strings.HasPrefix(name, "dead.") && !strings.HasPrefix(name, "runs.") && !strings.HasPrefix(name, "mesh.") {
			continue
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(have)), func(title string) bool { return schemas.NameOf(title) == name }) {
			t.Errorf("schema %s is no message", name)
		}
	}
}

func TestAsyncAPI_EveryChannelIsWrittenAndRead(t *testing.T) {
	t.Parallel()
	api := readAsyncAPI(t)
	actions := map[string]map[string]bool{"send": {}, "receive": {}}
	for name, op := range api.Operations {
		if _, ok := api.Channels[op.Channel.last()]; !ok || actions[op.Action] == nil || len(op.Tags) != 1 {
			t.Errorf("operation %s: %s on %s, tags %v", name, op.Action, op.Channel.Ref, op.Tags)
			continue
		}
		actions[op.Action][op.Channel.last()] = true
	}
	for channel := range api.Channels {
		// The server itself copies timer.set to timer.due.
		if !actions["send"][channel] && channel != "timerDue" || !actions["receive"][channel] && channel != "timerSet" {
			t.Errorf("channel %s: sent %t, received %t", channel, actions["send"][channel], actions["receive"][channel])
		}
	}
}
