package program

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

const (
	// ResultMax is the largest document a program may write, in bytes.
	ResultMax = tool.ResultMax
	// StderrMax is how much of the end of standard error an error shows, in bytes.
	StderrMax = 4096
	// KillAfter is the time between SIGTERM and SIGKILL.
	KillAfter = 2 * time.Second
	// argvMax bounds the words of a command, envMax the variables it declares.
	argvMax = 256
	envMax  = 64
)

var variableRE = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Program is a command and what it may see.
type Program struct {
	Command []string // program and arguments; no shell. ./name starts at Dir, a bare name is found in PATH
	Dir     string   // working directory, the worker's own when empty
	Env     []string // names of the variables passed on; each must be set when a call starts
	Stream  bool     // one document a line

	// Lookup reads the worker's environment; nil is os.LookupEnv.
	Lookup func(name string) (string, bool)
}

// Tool declares p as a tool. What is wrong with p shows in its Err as
// INVALID_CONFIG.
func (p Program) Tool(name, description string, opts ...tool.Option) tool.Tool {
	return tool.New(name, description, p.runTool, append(p.options("tool"), opts...)...)
}

// options are what every program is declared with; noun is what it is declared as.
func (p Program) options(noun string) []tool.Option {
	ready := func(ctx tool.Context) error { // settles the environment before the call counts as started
		_, err := p.environment(ctx, noun)
		return err
	}
	own := []tool.Option{func(*tool.Tool) error { return p.check() }, tool.Ready(ready)}
	if p.Stream {
		own = append(own, tool.Stream())
	}
	return own
}

func (p Program) check() error {
	if len(p.Command) == 0 || p.Command[0] == "" || len(p.Command) > argvMax {
		return fault.New(fault.InvalidConfig, "command of %d words: expected a program and its arguments, at most %d", len(p.Command), argvMax)
	}
	if len(p.Env) > envMax {
		return fault.New(fault.InvalidConfig, "%d variables in env: expected at most %d", len(p.Env), envMax)
	}
	for _, name := range p.Env {
		if !variableRE.MatchString(name) {
			return fault.New(fault.InvalidConfig, "env name %q: expected the name of one variable; patterns are not taken", name)
		}
		if strings.HasPrefix(name, agent.OwnVariables) {
			return fault.New(fault.InvalidConfig, "env name %q: names with %s are the mesh's own", name, agent.OwnVariables)
		}
	}
	return nil
}

// environment returns what the program sees; the values of declared variables are
// secrets of the call from then on, since programs print what they were given. It
// fails with CREDENTIAL_MISSING naming the first declared variable that is not set
// or empty, with INVALID_CONFIG naming one that is too long to be masked.
func (p Program) environment(ctx tool.Context, noun string) ([]string, error) {
	lookup := p.Lookup
	if lookup == nil {
		lookup = os.LookupEnv
	}
	var env []string
	for _, name := range []string{"PATH", "HOME", "LANG"} {
		if v, ok := lookup(name); ok {
			env = append(env, name+"="+v)
		}
	}
	told, err := told(ctx)
	if err != nil {
		return nil, err
	}
	env = append(env, told...)
	for _, name := range p.Env {
		v, ok := lookup(name)
		if !ok || v == "" {
			return nil, fault.New(fault.CredentialMissing, "the program declares the variable %s, which is not set where its worker runs: set it there, or take it off the %s's env", name, noun).
				With("name", name)
		}
		if err := ctx.Conceal(name, v); err != nil {
			return nil, err
		}
		env = append(env, name+"="+v)
	}
	return env, nil
}

// told is what the program knows of its call. What the call does not have is not set.
func told(ctx tool.Context) ([]string, error) {
	var env []string
	for _, v := range [][2]string{
		{"CRUMB_AGENT_ID", string(ctx.AgentID)}, {"CRUMB_SESSION_ID", string(ctx.SessionID)}, {"CRUMB_RUN_ID", string(ctx.RunID)},
		{"CRUMB_CALL_ID", string(ctx.CallID)}, {"CRUMB_ATTEMPT", strconv.Itoa(ctx.Attempt)}, {"CRUMB_TOOL_NAME", ctx.ToolName},
	} {
		if v[1] != "" {
			env = append(env, v[0]+"="+v[1])
		}
	}
	if ctx.Hook != nil {
		env = append(env, "CRUMB_HOOK_NAME="+ctx.Hook.Name, "CRUMB_HOOK_POINT="+ctx.Hook.Point)
	}
	if ctx.Principal != nil {
		who, err := json.Marshal(ctx.Principal)
		if err != nil {
			return nil, err
		}
		env = append(env, "CRUMB_PRINCIPAL="+string(who))
	}
	if ctx.Context == nil {
		return env, nil
	}
	span := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, span)
	for _, key := range slices.Sorted(maps.Keys(span)) {
		env = append(env, strings.ToUpper(key)+"="+span[key])
	}
	return env, nil
}
