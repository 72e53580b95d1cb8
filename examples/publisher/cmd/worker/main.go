// Command worker serves the example's Go tools to a mesh: as the command of group
// demo under `crumb dev`, or on its own. worker.FromEnvironment lists the variables
// that tell it where the mesh is, who it is there and which group it serves. It waits
// for the mesh, drains when it is told to stop, and has probes, metrics and traces
// where the environment asks for them.
package main

import (
	"context"
	"fmt"
	"os"

	publisher "github.com/crumbmesh/crumbmesh/examples/publisher/worker"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry/export"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

func main() {
	program := worker.Program{Telemetry: export.Start}
	if err := program.Serve(context.Background(), publisher.Tools()...); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}
