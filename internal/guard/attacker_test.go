package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// answerWait bounds the wait for an answer that always comes.
const answerWait = 10 * time.Second

// secretText stands in everything that some role may not read.
const secretText = "s3cret-of-payments"

// scene is a mesh at rest with something to steal and to spoil everywhere.
type scene struct {
	*meshtest.Mesh
	t        *testing.T
	ack      string   // of a call that a worker of payments has in hand
	blobs    []string // names of blobs in the areas of payments and of the core
	sequence uint64   // of the call
}

func newScene(t *testing.T) *scene {
	t.Helper()
	lasting := meshtest.WithSettings(func(s *mesh.Settings) { s.PresenceTTL = time.Hour }) // no row goes by itself while everybody attacks
	s := &scene{Mesh: meshtest.StartGuarded(t, []string{payments, research}, []string{"script"}, lasting), t: t}
	for _, subject := range []string{
		"tool.call.payments.run_1", "tool.call.payments.run_2", "model.call.script.run_1", "crumb.clerk.run_1.agent.run.start", "delta.clerk.run_1.text",
		"dead.TOOLCALLS-payments.run_1.7", "dead.REQUESTS.run_1.7", "$KV.runs.run_1", "$KV.agents.clerk.1", "$KV.approvals.run_1.1.0", "$KV.tools.payments._.pay",
		"$KV.workers.tool.payments.w1", "$KV.claims.tool.payments.run_1.1.0.1", "$KV.claims.model.script.run_1.1.m.1", "$KV.claims.tool.research.run_1.1.1.1",
	} {
		if _, err := s.Conn.Publish(t.Context(), &nats.Msg{Subject: subject, Data: []byte(`{"secret":"` + secretText + `"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, area := range []crumbs.Area{crumbs.AreaCore, crumbs.AreaCall(payments), crumbs.AreaTool(payments), crumbs.AreaApproval, crumbs.AreaModel("script")} {
		data := []byte(secretText + string(area))
		name := mesh.BlobName("run_1", data)
		if err := s.Conn.Blobs(area).Put(t.Context(), name, data); err != nil {
			t.Fatal(err)
		}
		s.blobs = append(s.blobs, string(area)+".run_1."+strings.TrimPrefix(name, "run_1/")+".0")
	}
	cons, err := s.Conn.JS.Consumer(t.Context(), crumbs.StreamToolCalls, mesh.GroupConsumer(payments))
	if err != nil {
		t.Fatal(err)
	}
	held, err := cons.Next()
	if err != nil {
		t.Fatal(err)
	}
	s.ack = held.Reply()
	meta, err := held.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	s.sequence = meta.Sequence.Stream
	return s
}

// state is everything that an attack may not change.
func (s *scene) state() map[string]string {
	s.t.Helper()
	out := map[string]string{}
	streams := s.Conn.JS.ListStreams(s.t.Context())
	for info := range streams.Info() {
		config, err := json.Marshal(info.Config)
		if err != nil {
			s.t.Fatal(err)
		}
		out[info.Config.Name] = fmt.Sprintf("%d messages, %d to %d; %s", info.State.Msgs, info.State.FirstSeq, info.State.LastSeq, config)
		stream, err := s.Conn.JS.Stream(s.t.Context(), info.Config.Name)
		if err != nil {
			s.t.Fatal(err)
		}
		consumers := stream.ListConsumers(s.t.Context())
		for c := range consumers.Info() {
			out[info.Config.Name+" "+c.Name] = fmt.Sprintf("delivered %d, floor %d, in hand %d, paused %v, redelivered %d", c.Delivered.Consumer, c.AckFloor.Stream, c.NumAckPending, c.Paused, c.NumRedelivered)
		}
	}
	if err := streams.Err(); err != nil {
		s.t.Fatal(err)
	}
	return out
}

func changed(before, after map[string]string) (out []string) {
	keys := map[string]bool{}
	for k := range before {
		keys[k] = true
	}
	for k := range after {
		keys[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if before[k] != after[k] {
			out = append(out, fmt.Sprintf("%s: %q was %q", k, after[k], before[k]))
		}
	}
	return out
}

// attacker is somebody who has the key of a role, and a client of his own that
// keeps to no rule of ours.
type attacker struct {
	t     *testing.T
	scene *scene
	role  string
	conn  *nats.Conn

	mu    sync.Mutex
	heard []string
}

func (s *scene) attacker(t *testing.T, role string) *attacker {
	t.Helper()
	a := &attacker{t: t, scene: s, role: role}
	access := s.Guard.Access(role)
	key, err := nats.NkeyOptionFromSeed(access.NKey)
	if err != nil {
		t.Fatal(err)
	}
	opts := []nats.Option{key, nats.InProcessServer(s.Door()), nats.Name("attacker " + role), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})} // the server's log tells
	if access.InboxPrefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(access.InboxPrefix))
	}
	if a.conn, err = nats.Connect("", opts...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.conn.Close)
	return a
}

// send publishes; reply may be anybody's.
func (a *attacker) send(subject, reply string, header nats.Header, data string) {
	a.t.Helper()
	if err := a.conn.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Header: header, Data: []byte(data)}); err != nil {
		a.t.Fatal(err)
	}
	a.flush()
}

func (a *attacker) flush() {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), answerWait)
	defer cancel()
	if err := a.conn.FlushWithContext(ctx); err != nil {
		a.t.Fatal(err)
	}
}

// ask sends a request that is answered, if with an error.
func (a *attacker) ask(subject string, header nats.Header, data string) *nats.Msg {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), answerWait)
	defer cancel()
	m, err := a.conn.RequestMsgWithContext(ctx, &nats.Msg{Subject: subject, Header: header, Data: []byte(data)})
	if err != nil && !errors.Is(err, nats.ErrNoResponders) {
		a.t.Fatalf("%s: %v", subject, err)
	}
	if m == nil {
		m = &nats.Msg{}
	}
	return m
}

// listen subscribes, also to what is not his.
func (a *attacker) listen(subject string) {
	a.t.Helper()
	if _, err := a.conn.Subscribe(subject, func(m *nats.Msg) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.heard = append(a.heard, m.Subject+" "+string(m.Data))
	}); err != nil {
		a.t.Fatal(err)
	}
	a.flush()
}

// isError reports whether NATS answered a publish or an API request with an error.
func isError(m *nats.Msg) bool {
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	return json.Unmarshal(m.Data, &answer) == nil && answer.Error != nil || m.Header.Get("Status") == "404" || m.Header.Get("Status") == "408"
}
