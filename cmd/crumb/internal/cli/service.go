package cli

import (
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/process"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry/export"
)

// serviceFlags are those of every service.
type serviceFlags struct {
	LogLevel  string        `help:"debug, info, warn or error." enum:"debug,info,warn,error" default:"info" env:"CRUMB_LOG_LEVEL"`
	LogFormat string        `help:"text or json, to standard error." enum:"text,json" default:"text" env:"CRUMB_LOG_FORMAT"`
	Wait      time.Duration `help:"How long NATS and the topology are waited for at the start." default:"30s" env:"CRUMB_WAIT"`
	Parent    string        `help:"stdin: drain when standard input, a pipe, is at its end, since whoever started the process is gone." enum:",stdin" default:"" env:"CRUMB_PARENT" placeholder:"stdin"`
}

// httpFlag is the flag that says where the probes are.
const httpFlag = "--http"

// serviceHelp is what the commands of services have in common.
const serviceHelp = "Settings come from the YAML file of --config, from the environment and from flags, the later before the earlier. " +
	"The first SIGTERM or SIGINT drains: nothing more is taken, what is in hand is finished or given back at once; a second one ends the process. " +
	"/readyz says why it does not serve."

// serve runs a service as this process.
func (f serviceFlags) serve(i *invocation, name, http string, run process.Service) error {
	if err := positive("--wait", f.Wait); err != nil {
		return err
	}
	log := f.logger(i).With("service", name)
	var parent *os.File
	if f.Parent == process.ParentStdin {
		parent = process.Parent(os.Stdin)
	}
	return process.Run(i.ctx, process.Config{
		Service: name, HTTP: http, Setting: httpFlag, Wait: f.Wait, Log: log, Parent: parent, Telemetry: export.Start,
		Mesh: mesh.ConnectConfig{Server: i.globals.Server, Access: i.globals.access(), Name: name, Logger: log},
	}, run)
}

func (f serviceFlags) logger(i *invocation) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(f.LogLevel)) // one of the enum, which are its names
	opts := &slog.HandlerOptions{Level: level}
	if f.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(i.std.Err, opts))
	}
	return slog.New(slog.NewTextHandler(i.std.Err, opts))
}

// verifierFlags are those of services that act on a person's decision.
type verifierFlags struct {
	ApprovalsPubkey []string `name:"approvals-pubkey" help:"Public keys of the approvals service, which decisions are verified with; two while the key is rotated." env:"CRUMB_APPROVALS_PUBKEY" placeholder:"KEY"`
}

func (f verifierFlags) verifier() (*decision.Verifier, error) {
	var keys []string
	for _, k := range f.ApprovalsPubkey {
		if k = strings.TrimSpace(k); k != "" {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, fault.New(fault.InvalidConfig, "--approvals-pubkey (CRUMB_APPROVALS_PUBKEY): expected the public key that `crumb approvals` logs when it starts; without it no approval can be believed")
	}
	return decision.NewVerifier(keys...)
}
