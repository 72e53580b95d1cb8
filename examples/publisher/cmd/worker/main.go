// Command worker serves the example's Go tools to a mesh: as the command of group
// demo under `crumb dev`, or on its own. worker.FromEnvironment lists the variables
// that tell it where the mesh is, who it is there and which group it serves.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	publisher "github.com/crumbmesh/crumbmesh/examples/publisher/worker"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := worker.Serve(ctx, publisher.Tools()...); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		stop()
		os.Exit(1)
	}
}
