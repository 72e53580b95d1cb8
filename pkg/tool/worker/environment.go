package worker

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// settingsBytesMax bounds the file that CRUMB_CONFIG names.
const settingsBytesMax = 1 << 20

// Environment is what the process was told: how it reaches the mesh and what it
// serves there.
type Environment struct {
	Mesh   mesh.ConnectConfig
	Worker Config
}

// Serve is a worker's whole program: it reads the process's environment, connects
// and serves the tools until ctx ends; calls in hand finish. It fails as
// FromEnvironment, mesh.Connect and Run do.
func Serve(ctx context.Context, tools ...tool.Tool) error {
	e, err := FromEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	conn, err := mesh.Connect(ctx, e.Mesh)
	if err != nil {
		return err
	}
	defer conn.Close()
	return Run(ctx, e.Worker, conn, tools...)
}

// FromEnvironment reads what `crumb dev`, a deployment or a role's settings tell a
// worker, under the names that `crumb toolexec` has for it:
//
//	CRUMB_CONFIG                      YAML file of settings; a variable goes before it
//	NATS_URL                          server of the mesh; mesh.DefaultServer when not set
//	NATS_NKEY, NATS_CREDS             seed file or credentials file, one of them
//	CRUMB_TLS_CA, _TLS_CERT, _TLS_KEY files in PEM
//	CRUMB_JS_API_PREFIX               where the account finds JetStream's API
//	CRUMB_INBOX_PREFIX                where answers to the role come
//	CRUMB_GROUP                       group to serve; required
//	CRUMB_APPROVALS_PUBKEY            keys that decisions are verified with, separated by commas; required
//	CRUMB_SLOTS, CRUMB_GRACE          calls at once; how long those in hand may go on
//	CRUMB_LOG_LEVEL, CRUMB_LOG_FORMAT debug, info, warn or error; text or json, to standard error
//
// An empty variable counts as one that is not set. Relative paths in the file start
// at its folder. It fails with INVALID_CONFIG naming the variable or the key.
func FromEnvironment(getenv func(string) string) (Environment, error) {
	s, err := readSettings(getenv("CRUMB_CONFIG"))
	if err != nil {
		return Environment{}, err
	}
	if err := s.override(getenv); err != nil {
		return Environment{}, err
	}
	return s.environment()
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
	LogLevel    string        `yaml:"logLevel"`
	LogFormat   string        `yaml:"logFormat"`
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
		return s, fault.New(fault.InvalidConfig, "CRUMB_CONFIG: %v", err)
	}
	if len(text) > settingsBytesMax {
		return s, fault.New(fault.InvalidConfig, "%s: expected at most %d bytes, got %d", file, settingsBytesMax, len(text))
	}
	if err := yaml.UnmarshalWithOptions(text, &s, yaml.Strict()); err != nil {
		return s, fault.New(fault.InvalidConfig, "%s: expected settings of a worker (server, nkey, creds, tlsCa, tlsCert, tlsKey, jsApiPrefix, inboxPrefix, group, approvalsPubkey, slots, grace, logLevel, logFormat): %s",
			file, yaml.FormatError(err, false, false))
	}
	for _, path := range []*string{&s.NKey, &s.Creds, &s.TLSCA, &s.TLSCert, &s.TLSKey} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(filepath.Dir(file), *path)
		}
	}
	return s, nil
}

// override puts the variables in front of what the file says.
func (s *settings) override(getenv func(string) string) error {
	for variable, into := range map[string]*string{
		"NATS_URL": &s.Server, "NATS_NKEY": &s.NKey, "NATS_CREDS": &s.Creds,
		"CRUMB_TLS_CA": &s.TLSCA, "CRUMB_TLS_CERT": &s.TLSCert, "CRUMB_TLS_KEY": &s.TLSKey,
		"CRUMB_JS_API_PREFIX": &s.JSAPIPrefix, "CRUMB_INBOX_PREFIX": &s.InboxPrefix, "CRUMB_GROUP": &s.Group,
		"CRUMB_LOG_LEVEL": &s.LogLevel, "CRUMB_LOG_FORMAT": &s.LogFormat,
	} {
		*into = cmp.Or(getenv(variable), *into)
	}
	if keys := split(getenv("CRUMB_APPROVALS_PUBKEY")); len(keys) > 0 {
		s.Keys = keys
	}
	if text := getenv("CRUMB_SLOTS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fault.New(fault.InvalidConfig, "CRUMB_SLOTS: expected a whole number from 1 to %d, got %q", SlotsMax, text)
		}
		s.Slots = n
	}
	if text := getenv("CRUMB_GRACE"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return fault.New(fault.InvalidConfig, "CRUMB_GRACE: expected a duration over 0 such as 30s, got %q", text)
		}
		s.Grace = d
	}
	return nil
}

func (s settings) environment() (Environment, error) {
	if len(s.Keys) == 0 {
		return Environment{}, fault.New(fault.InvalidConfig, "CRUMB_APPROVALS_PUBKEY (approvalsPubkey in the file of CRUMB_CONFIG): expected the public key that `crumb approvals` logs when it starts; without it no approval can be believed")
	}
	if s.Group == "" {
		return Environment{}, fault.New(fault.InvalidConfig, "CRUMB_GROUP (group in the file of CRUMB_CONFIG): expected the group that this worker serves")
	}
	verifier, err := decision.NewVerifier(s.Keys...)
	if err != nil {
		return Environment{}, fault.Wrap(fault.InvalidConfig, err, "CRUMB_APPROVALS_PUBKEY: %v", err)
	}
	log, err := s.logger()
	if err != nil {
		return Environment{}, err
	}
	return Environment{
		Mesh: mesh.ConnectConfig{
			Server: cmp.Or(s.Server, mesh.DefaultServer), Name: "worker of " + s.Group, Logger: log,
			Access: mesh.Access{Creds: s.Creds, NKey: s.NKey, CA: s.TLSCA, Cert: s.TLSCert, Key: s.TLSKey, APIPrefix: s.JSAPIPrefix, InboxPrefix: s.InboxPrefix},
		},
		Worker: Config{Group: s.Group, Slots: s.Slots, Grace: s.Grace, Verify: verifier.Verify},
	}, nil
}

func (s settings) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cmp.Or(s.LogLevel, "info"))); err != nil {
		return nil, fault.New(fault.InvalidConfig, "CRUMB_LOG_LEVEL: expected debug, info, warn or error, got %q", s.LogLevel)
	}
	o := &slog.HandlerOptions{Level: level}
	switch s.LogFormat {
	case "", "text":
		return slog.New(slog.NewTextHandler(os.Stderr, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(os.Stderr, o)), nil
	}
	return nil, fault.New(fault.InvalidConfig, "CRUMB_LOG_FORMAT: expected text or json, got %q", s.LogFormat)
}
