package durability_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
	"github.com/crumbmesh/crumbmesh/services/approvals"
	"github.com/crumbmesh/crumbmesh/services/modelgw"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// The environment of a service that runs as a process of its own.
const (
	envChild    = "CRUMB_TEST_CHILD"    // orchestrator, modelgw, toolexec or approvals
	envName     = "CRUMB_TEST_NAME"     // of the process; of a worker in claims
	envServer   = "CRUMB_TEST_SERVER"   // host:port
	envSettings = "CRUMB_TEST_SETTINGS" // of the topology, as JSON
	envKey      = "CRUMB_TEST_KEY"      // seed file of the key of decisions
	envSink     = "CRUMB_TEST_SINK"     // file that tools append their effects to
	envKillAt   = "CRUMB_TEST_KILL_AT"  // <point>:<n>: SIGKILL at the nth passage
)

// Points beside those of the orchestrator's loop. The first group lies directly
// before a message goes out, the second around the effect of a tool: effect.pay.
const (
	pointClaim    = "claim"
	pointResult   = "result"
	pointAck      = "ack"
	pointDecision = "decision"

	pointEffect   = "effect"   // the handler started, nothing happened
	pointEffected = "effected" // it happened, nobody was told
)

// wirePoint names the point a message to the server passes, "" for none.
func wirePoint(subject string) string {
	for prefix, point := range map[string]string{
		"$KV.claims.": pointClaim, "tool.result.": pointResult, "model.result.": pointResult, "$JS.ACK.": pointAck, "approval.decision.": pointDecision,
	} {
		if strings.HasPrefix(subject, prefix) {
			return point
		}
	}
	return ""
}

// bomb kills its own process at the nth passage of a point.
type bomb struct {
	point string
	left  atomic.Int64
}

func newBomb(spec string) *bomb {
	b := &bomb{}
	point, n, ok := strings.Cut(spec, ":")
	if !ok {
		return b
	}
	count, err := strconv.ParseInt(n, 10, 64)
	if err != nil {
		panic(envKillAt + "=" + spec + ": expected <point>:<n>")
	}
	b.point = point
	b.left.Store(count)
	return b
}

func (b *bomb) pass(point string) {
	if point != b.point || b.left.Add(-1) != 0 {
		return
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {} // the signal comes
}

// tcp is the way to the parent's server, with the bomb on the wire.
type tcp struct {
	address string
	bomb    *bomb
}

func (d tcp) InProcessConn() (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", d.address)
	if err != nil {
		return nil, err
	}
	return meshtest.Tap(func(subject string) meshtest.Verdict {
		d.bomb.pass(wirePoint(subject))
		return meshtest.Pass
	}).Wrap(conn), nil
}

// child is a service until its standard input ends.
func child() int {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, os.Getenv(envName), err)
		return 1
	}
	return 0
}

func serve() error {
	b := newBomb(os.Getenv(envKillAt))
	var settings mesh.Settings
	if err := json.Unmarshal([]byte(os.Getenv(envSettings)), &settings); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent, however that ends
		stop()
	}()
	conn, err := mesh.Connect(ctx, mesh.ConnectConfig{InProcess: tcp{os.Getenv(envServer), b}, Name: os.Getenv(envName), Settings: settings, Logger: meshtest.Logger(nil)})
	if err != nil {
		return err
	}
	defer conn.Close()
	key, err := decision.LoadSeed(os.Getenv(envKey))
	if err != nil {
		return err
	}
	trust, err := decision.NewVerifier(key.Public())
	if err != nil {
		return err
	}
	ready := func() { fmt.Println("ready") }
	switch role := os.Getenv(envChild); role {
	case "orchestrator":
		return orchestrator.Run(ctx, orchestrator.Config{Verify: trust.Verify, Ready: ready,
			At: func(p orchestrator.Point, _ crumbs.RunID) { b.pass(string(p)) }}, conn)
	case "modelgw":
		return modelgw.Run(ctx, modelgw.Config{Ready: ready}, conn)
	case "approvals":
		return approvals.Run(ctx, approvals.Config{Key: key, Ready: ready}, conn)
	case "toolexec":
		cfg := worker.Config{Group: groupBench, Name: os.Getenv(envName), Verify: trust.Verify, Ready: ready}
		return worker.Run(ctx, cfg, conn, effects(b)...)
	default:
		return fmt.Errorf("%s=%s: no such service", envChild, role)
	}
}

// effects are the counted tools whose effect is a line of a file: it is done when
// the line is written, and it lasts.
func effects(b *bomb) []tool.Tool {
	var tools []tool.Tool
	for name, effect := range map[string]crumbs.Effect{"peek": crumbs.EffectPure, "put": crumbs.EffectIdempotent, "pay": crumbs.EffectOnce} {
		do := func(c tool.Context, _ json.RawMessage, _ tool.Yield) (json.RawMessage, error) {
			b.pass(pointEffect + "." + name)
			f, err := os.OpenFile(os.Getenv(envSink), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return nil, err
			}
			defer func() { _ = f.Close() }()
			if _, err := fmt.Fprintf(f, "%s %s %s\n", name, c.CallID, os.Getenv(envName)); err != nil {
				return nil, err
			}
			b.pass(pointEffected + "." + name)
			return json.Marshal(name + " done")
		}
		tools = append(tools, tool.New(name, "Count.", do, tool.Effect(effect)))
	}
	return tools
}
