// Command tools is the tools of the mesh under chaos: a worker of its own, and
// commands that `crumb toolexec` runs. Each of them does one thing to the world,
// which is a POST to the counting sink, and takes a while before and after.
//
//	tools worker   book (idempotent) and pay (once), as a worker of group till
//	tools peek     a command, pure
//	tools stamp    a command, once
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/crumbmesh/crumbmesh/test/chaos/internal/check"
	"github.com/crumbmesh/crumbmesh/test/chaos/internal/sink"
)

const (
	envSink = "CHAOS_SINK" // URL of the sink
	envCall = "CRUMB_CALL_ID"

	postMax = 30 * time.Second
	argsMax = 64 << 10
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tools:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	const want = "expected one of worker, peek and stamp"
	if len(args) != 1 {
		return fmt.Errorf("%s, got %q", want, args)
	}
	switch args[0] {
	case "worker":
		return serve(ctx)
	case "peek", "stamp":
		return command(ctx, args[0])
	}
	return fmt.Errorf("%s, got %q", want, args[0])
}

// command is a tool as a program: arguments on standard input, a result on
// standard output.
func command(ctx context.Context, tool string) error {
	args, err := io.ReadAll(io.LimitReader(os.Stdin, argsMax))
	if err != nil {
		return err
	}
	call := os.Getenv(envCall)
	if err := act(ctx, check.Effect{Tool: tool, Call: call, Args: args}, ""); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(call)
}

// act does what the tool does. How long it takes depends on the call only: most
// are over in a moment, some can be met by whatever happens to their worker.
func act(ctx context.Context, e check.Effect, key string) error {
	before, after := lasts(e.Call)
	if err := wait(ctx, before); err != nil {
		return err
	}
	if err := post(ctx, e, key); err != nil {
		return err
	}
	return wait(ctx, after)
}

func lasts(call string) (before, after time.Duration) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(call)) // never fails
	n := h.Sum32()
	const (
		shortMax = 60   // milliseconds
		longMax  = 1500 // of one call in longNth
		longNth  = 6
	)
	most := uint32(shortMax)
	if n%longNth == 0 {
		most = longMax
	}
	n /= longNth
	return time.Duration(n%most) * time.Millisecond, time.Duration(n/most%most) * time.Millisecond
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// post tells the sink, once: a `once` tool may not repeat what it does not know.
func post(ctx context.Context, e check.Effect, key string) error {
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, postMax)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, os.Getenv(envSink), bytes.NewReader(body))
	if err != nil {
		return err
	}
	if key != "" {
		req.Header.Set(sink.KeyHeader, key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // nothing is read
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("the sink answered %s", resp.Status)
	}
	return nil
}
