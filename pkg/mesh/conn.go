package mesh

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/secret"
)

// DefaultServer is where a mesh is looked for when nothing else is said.
const DefaultServer = "nats://127.0.0.1:4222"

const (
	connectTimeout = 5 * time.Second
	reconnectWait  = 250 * time.Millisecond
	requestTimeout = 5 * time.Second // of one JetStream request
	// A server that says nothing, whose machine is gone or cut off, is left after
	// (pingsMax+1) pings: sooner than a worker that is cut off counts as gone.
	pingEvery = 4 * time.Second
	pingsMax  = 2
)

// ConnectConfig says how to reach NATS.
type ConnectConfig struct {
	Server    string                     // URL; NATS_URL of the command line
	Access    Access                     // who this process is to NATS
	Name      string                     // shown by the server
	InProcess nats.InProcessConnProvider // an embedded server, instead of Server
	Settings  Settings                   // zero value: DefaultSettings
	Secrets   *secret.Book               // what this process knows and must not say; a new one when nil
	Logger    *slog.Logger
	Meters    metric.MeterProvider // what is measured goes there; the global provider's when nil
	Traces    trace.TracerProvider // spans go there; the global provider's when nil
}

// Conn is a connection to the mesh with what NATS told about it.
type Conn struct {
	NATS     *nats.Conn
	JS       jetstream.JetStream
	Settings Settings
	Log      *slog.Logger // masks Secrets
	// Secrets is what this process must not say: the credentials of the connection,
	// and what whoever holds it adds. Never nil.
	Secrets *secret.Book
	Meter   metric.Meter // of this connection's process
	Tracer  trace.Tracer

	access     Access
	measured   *measured
	instance   string
	check      atomic.Pointer[func() error] // see Report
	violations atomic.Int64
	refusals   sync.Map // *refusal of requests under way
	mu         sync.Mutex
	violation  string
	streams    sync.Map // name → jetstream.Stream
}

// Connect connects to NATS with JetStream. It fails with UNAVAILABLE when no
// server answers, with PERMISSIONS_VIOLATION when the server does not know who this is
// or does not let it hear answers; afterwards it reconnects for ever.
func Connect(_ context.Context, cfg ConnectConfig) (*Conn, error) {
	c := &Conn{Settings: cfg.Settings.orDefault(), Log: cfg.Logger, access: cfg.Access, instance: uuid.NewString()}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if err := c.conceal(cfg); err != nil {
		return nil, err
	}
	opts := []nats.Option{
		nats.Name(cfg.Name), nats.Timeout(connectTimeout), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.ReconnectBufSize(-1), nats.ErrorHandler(c.onError), nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(pingsMax),
	}
	server := cfg.Server
	switch {
	case cfg.InProcess != nil:
		// A pipe cannot lose its peer; pings would only wake idle bubbles of virtual time.
		opts, server = append(opts, nats.InProcessServer(cfg.InProcess), nats.PingInterval(time.Hour)), ""
	case server == "":
		server = DefaultServer
	}
	access, err := cfg.Access.options()
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(server, append(opts, access...)...)
	if hint := tlsHint(err); hint != "" {
		return nil, fault.Wrap(fault.InvalidConfig, err, "NATS at %s: %s; %s", redact(server), c.said(err, server), hint)
	}
	if errors.Is(err, nats.ErrAuthorization) {
		return nil, fault.Wrap(fault.PermissionsViolation, err, "NATS at %s lets nobody in like this: %s; %s", redact(server), c.said(err, server), cfg.Access.unknown())
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot reach NATS at %s: %s; start one with `crumb dev` or name another with --server (NATS_URL)", redact(server), c.said(err, server))
	}
	c.NATS = nc
	if err := c.hears(); err != nil {
		nc.Close()
		return nil, err
	}
	c.observe(cfg)
	if c.JS, err = c.NewJetStream(jetstream.WithDefaultTimeout(requestTimeout), jetstream.WithPublishAsyncTimeout(requestTimeout)); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// NewJetStream returns another JetStream context of the connection, for options of
// its own.
func (c *Conn) NewJetStream(opts ...jetstream.JetStreamOpt) (jetstream.JetStream, error) {
	var js jetstream.JetStream
	var err error
	if c.access.APIPrefix == "" {
		js, err = jetstream.New(c.NATS, opts...)
	} else {
		js, err = jetstream.NewWithAPIPrefix(c.NATS, c.access.APIPrefix, opts...)
	}
	if err != nil {
		return nil, fault.Wrap(fault.InvalidConfig, err, "JetStream API prefix %q: %v", c.access.APIPrefix, err)
	}
	return js, nil
}

// onError counts what NATS reports outside of any call: a forbidden publish
// looks like a timeout to its caller, only this handler hears the reason.
func (c *Conn) onError(_ *nats.Conn, sub *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrPermissionViolation) || strings.Contains(strings.ToLower(err.Error()), "permissions violation") {
		c.violations.Add(1)
		c.mu.Lock()
		c.violation = err.Error()
		c.mu.Unlock()
		c.refuse(err.Error())
	}
	subject := ""
	if sub != nil {
		subject = sub.Subject
	}
	c.Log.Warn("nats", "error", err, "subject", subject)
}

// Health returns PERMISSIONS_VIOLATION once NATS refused this connection
// something, UNAVAILABLE while it is not connected, else nil.
func (c *Conn) Health() error {
	if n := c.violations.Load(); n > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return fault.New(fault.PermissionsViolation, "NATS refused %d operations, the last: %s", n, c.violation)
	}
	if !c.NATS.IsConnected() {
		return fault.New(fault.Unavailable, "not connected to NATS")
	}
	return nil
}

// Violations is how often NATS refused this connection something.
func (c *Conn) Violations() int64 { return c.violations.Load() }

// Close closes the connection at once; drain loops first.
func (c *Conn) Close() {
	c.measured.close()
	c.NATS.Close()
}

// stream returns a handle of a stream, looked up once.
func (c *Conn) stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if s, ok := c.streams.Load(name); ok {
		return s.(jetstream.Stream), nil
	}
	ctx, cancel := bounded(ctx, requestTimeout)
	defer cancel()
	s, err := c.JS.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fault.New(fault.TopologyMissing, "stream %s is missing; %s", name, repairAll)
	}
	if err != nil {
		return nil, unavailable(err, "stream "+name)
	}
	c.streams.Store(name, s)
	return s, nil
}

// bounded limits one request to NATS: the client bounds only contexts without a
// deadline (by requestTimeout, see Connect). An answer that a lost connection
// takes with it never comes, and a caller's deadline may be minutes away.
func bounded(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); !has {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limit)
}

func unavailable(err error, what string) error {
	return fault.Wrap(fault.Unavailable, err, "%s: NATS did not answer: %v", what, err)
}
