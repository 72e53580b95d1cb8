// Package client is what an application imports: start runs, follow their
// crumbs, answer their questions, cancel them.
//
//	c, err := client.Connect(ctx, client.Config{Server: "nats://127.0.0.1:4222"})
//	out, err := c.Run(ctx, client.Request{Agent: "publisher", Input: map[string]any{"path": "README.md"}})
//
// A run lives in the mesh, not in the client. A connection that drops and a process
// that dies end no run: whoever knows the run's id can follow it and wait for it
// again, from any process. Cancel ends a run, and so does the context of Run, which
// stands for the caller's interest in it, unless the caller says Detached. The
// contexts of Start, Follow and Wait end the call and never the run.
//
// A run id is an idempotency key: the same request under the same id starts
// nothing new, another one is refused with RUN_CONFLICT.
//
// Errors are fault.Error values; fault.CodeOf gives their code. UNAVAILABLE says
// that nobody answered: the call may or may not have been carried out, and may be
// repeated. The methods of a Client may be called at the same time.
package client
