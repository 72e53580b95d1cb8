// Command crumb is crumbmesh: the services and the command line, in one binary.
//
//	crumb demo            the example, end to end, without a network
//	crumb dev [DIR]       a whole mesh for a project folder
//	crumb run AGENT       start a run and follow it
//
// `crumb --help` lists the rest. Exit status: 0 completed, 1 failed or
// cancelled, 2 usage or validation, 3 suspended for a person.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/cli"
	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/terminal"
)

func main() { os.Exit(run()) }

// run is main with deferred calls: os.Exit skips them.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return cli.Main(ctx, os.Args[1:], terminal.Process())
}
