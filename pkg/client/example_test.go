package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// A run that pays asks a person first. Whoever has its id goes on with it later,
// from any process.
func ExampleClient_Run() {
	c, stop := startDemo() // or client.Connect
	defer stop()
	ctx := context.Background()

	out, err := c.Run(ctx, client.Request{Agent: "clerk", RunID: "invoice_17"})
	if err != nil {
		log.Panic(err)
	}
	question := out.Checkpoints[0]
	fmt.Println(out.Status, question.ToolName, string(question.Args))

	ada := crumbs.Principal{Issuer: "local", Subject: "ada"}
	if _, err := c.Resume(ctx, question.CheckpointID, client.Approve(question, ada)); err != nil {
		log.Panic(err)
	}
	if out, err = c.Wait(ctx, "invoice_17", client.After(out.Seq)); err != nil {
		log.Panic(err)
	}
	fmt.Println(out.Status, string(out.Output))

	// Output:
	// suspended tool_pay {"amount":20}
	// completed "It is paid."
}

// Start returns as soon as the request is stored; Follow shows what happens.
func ExampleClient_Follow() {
	c, stop := startDemo()
	defer stop()
	ctx := context.Background()

	run, err := c.Start(ctx, client.Request{Agent: "clerk"})
	if err != nil {
		log.Panic(err)
	}
	for crumb, err := range c.Follow(ctx, run.ID, client.Started(run.Agent)) {
		if err != nil {
			log.Panic(err)
		}
		fmt.Println(crumb.Seq, crumb.Type)
		if crumb.Suspended {
			if _, err := c.Cancel(ctx, run.ID, "no budget"); err != nil {
				log.Panic(err)
			}
		}
	}

	// Output:
	// 1 agent:run:start
	// 2 step:end
	// 3 human:required
	// 4 human:resumed
	// 5 agent:error
}

// A program tells people of what is asked while it waits, and does not want the run
// to outlive its own patience. Detached would leave the run to whoever comes next.
func ExampleOnHumanRequired() {
	c, stop := startDemo()
	defer stop()
	ctx, enough := context.WithCancel(context.Background())
	defer enough()

	out, err := c.Run(ctx, client.Request{Agent: "clerk"},
		client.OnHumanRequired(func(_ context.Context, q crumbs.HumanRequired) {
			fmt.Println("please decide on", q.ToolName, string(q.Args))
			enough()
		}))
	if err != nil {
		log.Panic(err)
	}
	fmt.Println(out.Status, out.Err.Code)

	// Output:
	// please decide on tool_pay {"amount":20}
	// cancelled RUN_CANCELLED
}
