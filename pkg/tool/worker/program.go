package worker

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/process"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// Program is a worker's whole program, what its main function calls.
type Program struct {
	// Telemetry exports traces and metrics as the standard OTEL_* variables say, and
	// makes the page /metrics: export.Start of pkg/telemetry/export. A worker without
	// it does not link the exporters.
	Telemetry process.Telemetry
}

// Serve is Program.Serve of a program that exports nothing.
func Serve(ctx context.Context, tools ...tool.Tool) error { return Program{}.Serve(ctx, tools...) }

// Serve does what `crumb toolexec` does: it reads the process's environment
// (FromEnvironment), waits for NATS and for the group's queue, logging what it waits
// for, and serves the tools until ctx ends, the process gets SIGTERM or SIGINT, or,
// with CRUMB_PARENT, whoever started it is gone.
// Then it drains: calls in hand finish or are given back; a second signal ends the
// process. With an address in CRUMB_HTTP it answers /livez and /readyz there. A
// standard error that nobody reads any more does not end it.
//
// It returns nil once it has drained. It fails with what FromEnvironment refuses, and
// with what Run or mesh.Connect refuse: at once when waiting cannot mend it, after
// CRUMB_WAIT with UNAVAILABLE or TOPOLOGY_MISSING otherwise.
func (p Program) Serve(ctx context.Context, tools ...tool.Tool) error {
	e, err := FromEnvironment(os.Environ())
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second signal ends the process at once
	e.Process.Telemetry = p.Telemetry
	if asked := telemetry.Wanted(os.Getenv); asked != "" && p.Telemetry == nil {
		e.Process.Log.Warn("nothing is exported: the program has no exporters; give worker.Program export.Start of pkg/telemetry/export", "variable", asked)
	}
	return process.Run(ctx, e.Process, func(ctx context.Context, conn *mesh.Conn, h process.Hooks) error {
		cfg := e.Worker
		cfg.Ready, cfg.Health = h.Ready, h.Health
		return Run(ctx, cfg, conn, tools...)
	})
}
