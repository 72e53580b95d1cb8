package worker

import (
	"cmp"
	"log/slog"
	"os"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/process"
)

// Environment is what the process was told: how it reaches the mesh and what it
// serves there.
type Environment struct {
	Process process.Config // Telemetry is not set
	Worker  Config
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
//	CRUMB_WAIT                        how long NATS and the topology are waited for
//	CRUMB_HTTP                        address of /livez, /readyz and /metrics; none when not set
//	CRUMB_LOG_LEVEL, CRUMB_LOG_FORMAT debug, info, warn or error; text or json, to standard error
//	CRUMB_PARENT                      stdin: drain when standard input, a pipe, is at its end
//
// The environment is as os.Environ has it. An empty variable counts as one that is
// not set. Relative paths in the file start at its folder. It fails with
// INVALID_CONFIG naming the variable or the key, also for a key, or a variable that
// begins with CRUMB_, that is no setting: a typing error would otherwise leave a
// default in force without a word.
func FromEnvironment(environment []string) (Environment, error) {
	variables := map[string]string{}
	for _, entry := range environment {
		name, value, _ := strings.Cut(entry, "=")
		variables[name] = value
	}
	s, err := readSettings(variables[fileVariable])
	if err != nil {
		return Environment{}, err
	}
	if err := s.override(variables); err != nil {
		return Environment{}, err
	}
	return s.environment()
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
	name := "toolexec-" + s.Group // as its role and its service in a deployment
	log = log.With("service", name)
	var parent *os.File
	if s.Parent {
		parent = process.Parent(os.Stdin)
	}
	return Environment{
		Process: process.Config{Service: name, HTTP: s.HTTP, Setting: httpVariable, Wait: s.Wait, Log: log, Parent: parent, Mesh: mesh.ConnectConfig{
			Server: cmp.Or(s.Server, mesh.DefaultServer), Name: "worker of " + s.Group, Logger: log,
			Access: mesh.Access{Creds: s.Creds, NKey: s.NKey, CA: s.TLSCA, Cert: s.TLSCert, Key: s.TLSKey, APIPrefix: s.JSAPIPrefix, InboxPrefix: s.InboxPrefix},
		}},
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
