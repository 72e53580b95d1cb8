// Command worker serves the example's Go tools to a mesh. `crumb dev` starts it
// as the command of group demo and tells it where the mesh is:
//
//	NATS_URL                the server
//	CRUMB_GROUP             the group to serve
//	CRUMB_APPROVALS_PUBKEY  the key that people's decisions are verified with
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	publisher "github.com/crumbmesh/crumbmesh/examples/publisher/worker"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		stop()
		os.Exit(1)
	}
}

// serve runs the tools until ctx ends; calls in hand finish.
func serve(ctx context.Context) error {
	verifier, err := decision.NewVerifier(os.Getenv("CRUMB_APPROVALS_PUBKEY"))
	if err != nil {
		return fmt.Errorf("CRUMB_APPROVALS_PUBKEY: %w", err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	group := os.Getenv("CRUMB_GROUP")
	conn, err := mesh.Connect(ctx, mesh.ConnectConfig{Server: os.Getenv("NATS_URL"), Name: "worker of " + group, Logger: log})
	if err != nil {
		return err
	}
	defer conn.Close()
	return worker.Run(ctx, worker.Config{Group: group, Verify: verifier.Verify}, conn, publisher.Tools()...)
}
