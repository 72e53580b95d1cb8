package worker

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/process"
)

// settingsBytesMax bounds the file that CRUMB_CONFIG names.
const settingsBytesMax = 1 << 20

const (
	fileVariable   = "CRUMB_CONFIG"
	httpVariable   = "CRUMB_HTTP"
	variablePrefix = "CRUMB_" // of the product's variables: one that is no setting is an error
)

// Setting is a row of what a worker is told.
type Setting struct {
	Key      string // in the file; "": it cannot stand there
	Variable string
	Default  string
	Help     string
}

// Settings are what FromEnvironment reads.
func Settings() []Setting {
	out := make([]Setting, len(rows))
	for i, r := range rows {
		out[i] = r.Setting
	}
	return out
}

// row is a setting and how a variable's text is taken, which is never empty.
type row struct {
	Setting
	take func(s *settings, text string) error
}

// settings are those of `crumb toolexec` that a worker has too.
type settings struct {
	Server      string        `yaml:"server"`
	NKey        string        `yaml:"nkey"`
	Creds       string        `yaml:"creds"`
	TLSCA       string        `yaml:"tlsCa"`
	TLSCert     string        `yaml:"tlsCert"`
	TLSKey      string        `yaml:"tlsKey"`
	JSAPIPrefix string        `yaml:"jsApiPrefix"`
	InboxPrefix string        `yaml:"inboxPrefix"`
	Group       string        `yaml:"group"`
	Keys        keys          `yaml:"approvalsPubkey"`
	Slots       int           `yaml:"slots"`
	Grace       time.Duration `yaml:"grace"`
	Wait        time.Duration `yaml:"wait"`
	HTTP        string        `yaml:"http"`
	LogLevel    string        `yaml:"logLevel"`
	LogFormat   string        `yaml:"logFormat"`
	Parent      bool          `yaml:"-"` // of the process, not of the role
}

var rows = []row{
	{Setting{"", fileVariable, "", "YAML file of these settings; a variable that is not empty goes before it."},
		func(*settings, string) error { return nil }}, // read before
	{Setting{"server", "NATS_URL", mesh.DefaultServer, "NATS server of the mesh."}, text(func(s *settings) *string { return &s.Server })},
	{Setting{"creds", "NATS_CREDS", "", "NATS credentials file."}, text(func(s *settings) *string { return &s.Creds })},
	{Setting{"nkey", "NATS_NKEY", "", "NATS NKEY seed file."}, text(func(s *settings) *string { return &s.NKey })},
	{Setting{"tlsCa", "CRUMB_TLS_CA", "", "Certificate authorities that the server's certificate may be from."}, text(func(s *settings) *string { return &s.TLSCA })},
	{Setting{"tlsCert", "CRUMB_TLS_CERT", "", "Certificate to show the server."}, text(func(s *settings) *string { return &s.TLSCert })},
	{Setting{"tlsKey", "CRUMB_TLS_KEY", "", "Key of the certificate."}, text(func(s *settings) *string { return &s.TLSKey })},
	{Setting{"jsApiPrefix", "CRUMB_JS_API_PREFIX", "", "Where this account imports JetStream's API ($JS.API)."}, text(func(s *settings) *string { return &s.JSAPIPrefix })},
	{Setting{"inboxPrefix", "CRUMB_INBOX_PREFIX", "", "Where answers to this role come (_INBOX)."}, text(func(s *settings) *string { return &s.InboxPrefix })},
	{Setting{"group", "CRUMB_GROUP", "", "Group to serve; required."}, text(func(s *settings) *string { return &s.Group })},
	{Setting{"approvalsPubkey", "CRUMB_APPROVALS_PUBKEY", "", "Public keys of the approvals service, which decisions are verified with; two while the key is rotated. Required."},
		func(s *settings, text string) error { s.Keys = split(text); return nil }},
	{Setting{"slots", "CRUMB_SLOTS", strconv.Itoa(SlotsDefault), "Calls at once."}, takeSlots},
	{Setting{"grace", "CRUMB_GRACE", GraceDefault.String(), "How long calls in hand may go on when the process stops."},
		duration("CRUMB_GRACE", func(s *settings) *time.Duration { return &s.Grace })},
	{Setting{"wait", "CRUMB_WAIT", process.WaitDefault.String(), "How long NATS and the topology are waited for at the start."},
		duration("CRUMB_WAIT", func(s *settings) *time.Duration { return &s.Wait })},
	{Setting{"http", httpVariable, "", "Address of /livez, /readyz and, with the exporters, /metrics; empty: none."}, text(func(s *settings) *string { return &s.HTTP })},
	{Setting{"logLevel", "CRUMB_LOG_LEVEL", "info", "debug, info, warn or error."}, text(func(s *settings) *string { return &s.LogLevel })},
	{Setting{"logFormat", "CRUMB_LOG_FORMAT", "text", "text or json, to standard error."}, text(func(s *settings) *string { return &s.LogFormat })},
	{Setting{"", process.ParentVariable, "", "stdin: drain when standard input, a pipe, is at its end, since whoever started the process is gone; `crumb dev` sets it."}, takeParent},
}

func text(of func(*settings) *string) func(*settings, string) error {
	return func(s *settings, text string) error { *of(s) = text; return nil }
}

func duration(variable string, of func(*settings) *time.Duration) func(*settings, string) error {
	return func(s *settings, text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return fault.New(fault.InvalidConfig, "%s: expected a duration over 0 such as 30s, got %q", variable, text)
		}
		*of(s) = d
		return nil
	}
}

func takeSlots(s *settings, text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return fault.New(fault.InvalidConfig, "CRUMB_SLOTS: expected a whole number from 1 to %d, got %q", SlotsMax, text)
	}
	s.Slots = n
	return nil
}

func takeParent(s *settings, text string) error {
	if text != process.ParentStdin {
		return fault.New(fault.InvalidConfig, "%s: expected %s, got %q", process.ParentVariable, process.ParentStdin, text)
	}
	s.Parent = true
	return nil
}

// keys are a YAML list, or one text.
type keys []string

// UnmarshalYAML implements yaml.InterfaceUnmarshaler.
func (k *keys) UnmarshalYAML(decode func(any) error) error {
	var one string
	if decode(&one) == nil {
		*k = split(one)
		return nil
	}
	return decode((*[]string)(k))
}

func split(text string) (out keys) {
	for _, k := range strings.Split(text, ",") {
		if k = strings.TrimSpace(k); k != "" {
			out = append(out, k)
		}
	}
	return out
}

func readSettings(file string) (s settings, err error) {
	if file == "" {
		return s, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return s, fault.New(fault.InvalidConfig, "%s: %v", fileVariable, err)
	}
	if len(text) > settingsBytesMax {
		return s, fault.New(fault.InvalidConfig, "%s: expected at most %d bytes, got %d", file, settingsBytesMax, len(text))
	}
	if err := yaml.UnmarshalWithOptions(text, &s, yaml.Strict()); err != nil {
		return s, fault.New(fault.InvalidConfig, "%s: expected settings of a worker (%s): %s", file, named(func(s Setting) string { return s.Key }), yaml.FormatError(err, false, false))
	}
	if s.Slots < 0 || s.Grace < 0 || s.Wait < 0 {
		return s, fault.New(fault.InvalidConfig, "%s: slots %d, grace %s, wait %s: expected none to be negative", file, s.Slots, s.Grace, s.Wait)
	}
	for _, path := range []*string{&s.NKey, &s.Creds, &s.TLSCA, &s.TLSCert, &s.TLSKey} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(filepath.Dir(file), *path)
		}
	}
	return s, nil
}

// named lists a column of the settings, without its gaps.
func named(column func(Setting) string) string {
	var out []string
	for _, s := range Settings() {
		if name := column(s); name != "" {
			out = append(out, name)
		}
	}
	return strings.Join(out, ", ")
}

// override puts the variables in front of what the file says. An empty one counts as
// one that is not set.
func (s *settings) override(variables map[string]string) error {
	known := map[string]bool{}
	for _, r := range rows {
		known[r.Variable] = true
		if text := variables[r.Variable]; text != "" {
			if err := r.take(s, text); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if strings.HasPrefix(name, variablePrefix) && !known[name] {
			return fault.New(fault.InvalidConfig, "%s is no setting of a worker; its variables are: %s", name, named(func(s Setting) string { return s.Variable }))
		}
	}
	return nil
}
