package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// configBytesMax bounds a configuration file.
const configBytesMax = 1 << 20

// configFlag is the flag that names the file; it cannot stand in it.
const configFlag = "config"

// configFile gives flags the values of the YAML file that --config names. Keys
// are the names of the command's flags in camelCase; a flag on the command line
// and a variable of the environment go before it. Relative paths in it start at
// its folder.
type configFile struct {
	read   bool
	path   string
	values map[string]configValue // by flag name
}

// configValue is a value of the file, as kong takes it.
type configValue struct {
	value any
	line  int
}

// Validate implements kong.Resolver; the file is not known yet.
func (*configFile) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver.
func (f *configFile) Resolve(parsed *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if err := f.load(parsed); err != nil {
		return nil, err
	}
	v, ok := f.values[flag.Name]
	if !ok || inEnvironment(flag) {
		return nil, nil
	}
	if flag.Tag.Type == "path" {
		if text, ok := v.value.(string); ok && text != "" && !filepath.IsAbs(text) {
			return filepath.Join(filepath.Dir(f.path), text), nil
		}
	}
	return v.value, nil
}

func inEnvironment(flag *kong.Flag) bool {
	return slices.ContainsFunc(flag.Envs, func(name string) bool { _, ok := os.LookupEnv(name); return ok })
}

// load reads the file once. Every key must be a flag of the command.
func (f *configFile) load(parsed *kong.Context) error {
	if f.read {
		return nil
	}
	f.read = true
	known := map[string]bool{}
	for _, flag := range parsed.Flags() {
		known[flag.Name] = flag.Name != configFlag && flag.Name != "help" && flag.Name != "version"
		if flag.Name == configFlag {
			f.path = named(parsed, flag)
		}
	}
	if f.path == "" {
		return nil
	}
	values, err := readConfig(f.path)
	if err != nil {
		return err
	}
	f.values = map[string]configValue{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		name := kebab(key)
		if !known[name] {
			return fault.New(fault.InvalidConfig, "%s:%d: %q is no setting of this command; its settings are: %s", f.path, values[key].line, key, settings(known))
		}
		f.values[name] = values[key]
	}
	return nil
}

// named is the file that a command line names, or the environment. That of
// `crumb health` does not: a health check has the environment of the process it
// asks, whose file is not about it.
func named(parsed *kong.Context, flag *kong.Flag) string {
	given := slices.ContainsFunc(parsed.Path, func(p *kong.Path) bool { return p.Flag == flag })
	if !given && parsed.Selected() != nil && parsed.Selected().Target.Type() == reflect.TypeFor[healthCommand]() {
		return ""
	}
	path, _ := parsed.FlagValue(flag).(string)
	if path == "" && len(flag.Envs) > 0 {
		path = os.Getenv(flag.Envs[0])
	}
	return path
}

// settings are the keys that a file may have, sorted.
func settings(known map[string]bool) string {
	var names []string
	for name, ok := range known {
		if ok {
			names = append(names, camel(name))
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func readConfig(path string) (map[string]configValue, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.New(fault.InvalidConfig, "--config: %v", err)
	}
	if len(text) > configBytesMax {
		return nil, fault.New(fault.InvalidConfig, "%s: expected at most %d bytes, got %d", path, configBytesMax, len(text))
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, fault.New(fault.InvalidConfig, "%s: %s", path, yaml.FormatError(err, false, false))
	}
	out := map[string]configValue{}
	for i, doc := range file.Docs {
		if i > 0 {
			return nil, fault.New(fault.InvalidConfig, "%s:%d: a second document: expected one; remove the `---` and what follows", path, doc.Start.Position.Line)
		}
		if doc.Body == nil || doc.Body.Type() == ast.NullType {
			continue
		}
		mapping, ok := doc.Body.(*ast.MappingNode)
		if !ok {
			return nil, fault.New(fault.InvalidConfig, "%s:%d: expected settings, one `key: value` a line", path, doc.Body.GetToken().Position.Line)
		}
		for _, item := range mapping.Values {
			line := item.Key.GetToken().Position.Line
			var value any
			if err := yaml.NodeToValue(item.Value, &value); err != nil {
				return nil, fault.New(fault.InvalidConfig, "%s:%d: %s", path, line, yaml.FormatError(err, false, false))
			}
			key := item.Key.String()
			taken, err := setting(value)
			if err != nil {
				return nil, fault.New(fault.InvalidConfig, "%s:%d: %s: %v", path, line, key, err)
			}
			out[key] = configValue{value: taken, line: line}
		}
	}
	return out, nil
}

// setting is a YAML value as kong reads it from a resolver: a text, a boolean or
// a list of texts.
func setting(v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string, bool:
		return v, nil
	case uint64, int64, float64:
		return fmt.Sprint(v), nil
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			text, err := setting(e)
			if err != nil {
				return nil, err
			}
			if b, ok := text.(bool); ok {
				text = strconv.FormatBool(b)
			}
			list[i] = text
		}
		return list, nil
	}
	return nil, fmt.Errorf("expected a text, a number, a boolean or a list of them, got %T", v)
}

// camel is a flag's name as a key: js-api-prefix is jsApiPrefix.
func camel(flag string) string {
	words := strings.Split(flag, "-")
	for i := range words {
		if i > 0 && words[i] != "" {
			words[i] = strings.ToUpper(words[i][:1]) + words[i][1:]
		}
	}
	return strings.Join(words, "")
}

// kebab is a key as a flag's name; a key in another spelling names no flag.
func kebab(key string) string {
	var out strings.Builder
	for _, r := range key {
		switch {
		case r >= 'A' && r <= 'Z':
			out.WriteByte('-')
			out.WriteRune(r + 'a' - 'A')
		case r == '-':
			return "" // tls-ca is written tlsCa
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// variablePrefix is that of the product's environment variables.
const variablePrefix = "CRUMB_"

// checkVariables refuses a CRUMB_ variable that no command reads: a typing error
// would otherwise leave a default in force without a word.
func checkVariables(app *kong.Application, environment []string) error {
	known := map[string]bool{}
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		for _, flag := range n.Flags {
			for _, name := range flag.Envs {
				known[name] = true
			}
		}
		for _, child := range n.Children {
			walk(child)
		}
	}
	walk(app.Node)
	for _, entry := range environment {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, variablePrefix) && !known[name] {
			return fault.New(fault.InvalidConfig, "%s is no setting; the variables are: %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	return nil
}
