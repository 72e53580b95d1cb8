package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
	"github.com/crumbmesh/crumbmesh/test/chaos/internal/check"
)

const (
	envName = "CHAOS_NAME" // of the process: the id of the worker, in claims and crumbs
	envHTTP = "CHAOS_HTTP" // where /readyz is asked

	group      = "till"
	probeMax   = 5 * time.Second
	startPause = time.Second // between two attempts to start
)

type seat struct {
	Seat int `json:"seat"`
}

type amount struct {
	Cents int `json:"cents" jsonschema:"minimum=1"`
}

func counted[In any](name string, effect crumbs.Effect) tool.Tool {
	return tool.Define(name, "Tell the sink.", func(c tool.Context, in In) (string, error) {
		args, err := json.Marshal(in)
		if err != nil {
			return "", err
		}
		key := ""
		if effect == crumbs.EffectIdempotent {
			key = string(c.CallID)
		}
		return string(c.CallID), act(c, check.Effect{Tool: name, Call: string(c.CallID), Args: args}, key)
	}, tool.Effect(effect))
}

// serve is a worker until ctx ends; calls in hand finish. It waits for NATS as the
// services do.
func serve(ctx context.Context) error {
	var ready atomic.Bool
	if err := probe(ctx, &ready); err != nil {
		return err
	}
	for {
		err := work(ctx, func() { ready.Store(true) })
		if ready.Load() || fault.CodeOf(err) != fault.Unavailable {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // told to stop before it could start
		case <-time.After(startPause):
		}
	}
}

func work(ctx context.Context, ready func()) error {
	verifier, err := decision.NewVerifier(os.Getenv("CRUMB_APPROVALS_PUBKEY"))
	if err != nil {
		return fmt.Errorf("CRUMB_APPROVALS_PUBKEY: %w", err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	conn, err := mesh.Connect(ctx, mesh.ConnectConfig{Server: os.Getenv("NATS_URL"), Name: os.Getenv(envName), Logger: log})
	if err != nil {
		return err
	}
	defer conn.Close()
	return worker.Run(ctx, worker.Config{Group: group, Name: os.Getenv(envName), Verify: verifier.Verify, Ready: ready}, conn,
		counted[seat]("book", crumbs.EffectIdempotent), counted[amount]("pay", crumbs.EffectOnce))
}

// probe answers whether the worker serves.
func probe(ctx context.Context, ready *atomic.Bool) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", os.Getenv(envHTTP))
	if err != nil {
		return err
	}
	server := &http.Server{ReadTimeout: probeMax, WriteTimeout: probeMax, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }() // ends with ctx
	return nil
}
