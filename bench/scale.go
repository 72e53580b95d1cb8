package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

const (
	scaleUp       = 60 * time.Second // until a process serves
	scaleIdle     = 10 * time.Second // over which idle is measured
	scaleAtOnce   = 256              // requests that wait for their question
	scaleLook     = 100 * time.Millisecond
	scaleLists    = 5
	scalePage     = 50
	scaleMiB      = 1 << 20
	scaleInterval = 10 * time.Second // between two lines of progress
)

// Scale is a deployment, every process its own, that keeps many waiting runs.
type Scale struct {
	Runs       int            `json:"runs"`
	Seconds    float64        `json:"seconds"` // until all of them asked
	Bytes      []Held         `json:"bytes"`   // a run
	Processes  []ScaleProcess `json:"processes"`
	Operations []Latency      `json:"operations"`
}

// ScaleProcess is one process without and with the waiting runs.
type ScaleProcess struct {
	Name           string  `json:"name"`
	BeforeMB       float64 `json:"residentMBBefore"`
	AfterMB        float64 `json:"residentMBAfter"`
	Goroutines     int     `json:"goroutinesBefore"`
	GoroutinesThen int     `json:"goroutinesAfter"`
	CoreBefore     float64 `json:"corePercentBefore"`
	CoreAfter      float64 `json:"corePercentAfter"`
}

// deployment is nats-server and the four services as processes.
type deployment struct {
	dir, crumb, url string
	key             decision.Key
	procs           []*proc
}

// proc is one process of it.
type proc struct {
	name string
	cmd  *exec.Cmd
	http string // of its probes; "" for nats-server
	said *bytes.Buffer
}

// scale measures it.
func scale(ctx context.Context, o options, dir string, report *Report) error {
	d := &deployment{dir: dir}
	defer d.stop()
	if err := d.start(ctx, o); err != nil {
		return err
	}
	p := &place{waiting: map[crumbs.RunID]chan string{}}
	var err error
	if p.client, err = mesh.Connect(ctx, mesh.ConnectConfig{Server: d.url, Name: "bench"}); err != nil {
		return err
	}
	defer p.client.Close()
	verifier, err := decision.NewVerifier(d.key.Public())
	if err != nil {
		return err
	}
	started := make(chan crumbs.CallID, 1)
	l := &live{place: p, key: d.key, verifier: verifier, called: func(c tool.Context) {
		select {
		case started <- c.CallID:
		default:
		}
	}}
	working, stop := context.WithCancel(ctx)
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- worker.Run(working, worker.Config{Group: group, Slots: workerSlots, Verify: verifier.Verify, Ready: func() { close(ready) }}, p.client, l.tools()...)
	}()
	defer func() {
		stop()
		<-ended //nolint:errcheck // what was measured stands
	}()
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		return fmt.Errorf("the worker: %w", err)
	}
	if err := l.apply(ctx); err != nil {
		return err
	}
	q := &questions{live: l, api: client.New(p.client), open: make(chan crumbs.HumanRequired, openMax)}
	return d.measure(ctx, o, q, started, report)
}

func (d *deployment) start(ctx context.Context, o options) error {
	var err error
	if d.crumb, err = binary(ctx, o.crumb, d.dir, "github.com/crumbmesh/crumbmesh/cmd/crumb"); err != nil {
		return err
	}
	nats, err := binary(ctx, "", d.dir, "github.com/nats-io/nats-server/v2")
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	d.url = "nats://127.0.0.1:" + strconv.Itoa(port)
	keyFile := filepath.Join(d.dir, "approvals.key")
	if d.key, err = decision.LoadOrCreate(keyFile); err != nil {
		return err
	}
	if err := d.run(ctx, "nats-server", "", nats, "-js", "-sd", filepath.Join(d.dir, "nats"), "-a", "127.0.0.1", "-p", strconv.Itoa(port)); err != nil {
		return err
	}
	if err := d.init(ctx); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"orchestrator"}, {"modelgw"}, {"approvals", "--key-file", keyFile},
	} {
		if err := d.service(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// init makes the topology as soon as the server answers.
func (d *deployment) init(ctx context.Context) error {
	for end := time.Now().Add(scaleUp); ; <-time.After(scaleLook) {
		made, err := exec.CommandContext(ctx, d.crumb, "init", "--server", d.url, "--size", "small", "--group", group).CombinedOutput()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("crumb init: %w: %s", err, made)
		}
	}
}

// service starts a service and waits until it serves.
func (d *deployment) service(ctx context.Context, args ...string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	line := append(args, "--server", d.url, "--http", address, "--log-level", "warn")
	if args[0] == "orchestrator" {
		line = append(line, "--approvals-pubkey", d.key.Public())
	}
	if err := d.run(ctx, args[0], address, d.crumb, line...); err != nil {
		return err
	}
	p := d.procs[len(d.procs)-1]
	for end := time.Now().Add(scaleUp); !p.serves(ctx); <-time.After(scaleLook) {
		if time.Now().After(end) {
			return fmt.Errorf("%s does not serve: %s", p.name, p.said)
		}
	}
	return nil
}

func (d *deployment) run(ctx context.Context, name, address, program string, args ...string) error {
	p := &proc{name: name, http: address, said: &bytes.Buffer{}, cmd: exec.CommandContext(ctx, program, args...)}
	p.cmd.Stderr = p.said
	if err := p.cmd.Start(); err != nil {
		return err
	}
	d.procs = append(d.procs, p)
	return nil
}

// stop ends the services first, then the server.
func (d *deployment) stop() {
	for i := len(d.procs) - 1; i >= 0; i-- {
		_ = d.procs[i].cmd.Process.Signal(syscall.SIGTERM)
		_ = d.procs[i].cmd.Wait() // what was measured stands
	}
}

func freePort() (int, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

func (p *proc) serves(ctx context.Context) bool {
	_, err := p.get(ctx, "/readyz")
	return err == nil
}

func (p *proc) get(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.http+path, http.NoBody)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }() // read whole below
	body, err := io.ReadAll(io.LimitReader(answer.Body, 16*scaleMiB))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return string(body), err
}

// goroutines are those that the process says it has; 0 for one that says nothing.
func (p *proc) goroutines(ctx context.Context) int {
	if p.http == "" {
		return 0
	}
	page, err := p.get(ctx, "/metrics")
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(page, "\n") {
		if n, found := strings.CutPrefix(line, "go_goroutines "); found {
			count, _ := strconv.Atoi(strings.TrimSpace(n)) // 0 for what is no number
			return count
		}
	}
	return 0
}

// rest is what each process uses while nothing happens.
func (d *deployment) rest(ctx context.Context, note func(p *ScaleProcess, megabytes, core float64, goroutines int), all []ScaleProcess) error {
	<-time.After(scaleIdle) // what came before is over
	before := make([]time.Duration, len(d.procs))
	for i, p := range d.procs {
		used, _, err := usageOf(p.cmd.Process.Pid)
		if err != nil {
			return err
		}
		before[i] = used
	}
	<-time.After(scaleIdle)
	for i, p := range d.procs {
		used, resident, err := usageOf(p.cmd.Process.Pid)
		if err != nil {
			return err
		}
		note(&all[i], float64(resident)/scaleMiB, 100*(used-before[i]).Seconds()/scaleIdle.Seconds(), p.goroutines(ctx))
	}
	return nil
}

func (d *deployment) measure(ctx context.Context, o options, q *questions, started <-chan crumbs.CallID, report *Report) error {
	s := &report.Scale
	for _, p := range d.procs {
		s.Processes = append(s.Processes, ScaleProcess{Name: p.name})
	}
	if err := d.hold(ctx, q, holdWarm); err != nil {
		return err
	}
	if err := d.rest(ctx, func(p *ScaleProcess, mb, core float64, n int) { p.BeforeMB, p.CoreBefore, p.Goroutines = mb, core, n }, s.Processes); err != nil {
		return err
	}
	streams := []string{"KV_" + crumbs.BucketRuns, "KV_" + crumbs.BucketApprovals, crumbs.StreamTimers, crumbs.StreamCrumbs}
	before := map[string]int64{}
	var err error
	for _, name := range streams {
		if before[name], err = q.bytesOf(ctx, name); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := d.hold(ctx, q, o.runs); err != nil {
		return err
	}
	s.Runs, s.Seconds = o.runs, time.Since(began).Seconds()
	for _, name := range streams {
		after, err := q.bytesOf(ctx, name)
		if err != nil {
			return err
		}
		s.Bytes = append(s.Bytes, Held{Stream: name, Bytes: float64(after-before[name]) / float64(o.runs)})
	}
	if err := d.rest(ctx, func(p *ScaleProcess, mb, core float64, n int) { p.AfterMB, p.CoreAfter, p.GoroutinesThen = mb, core, n }, s.Processes); err != nil {
		return err
	}
	return d.operate(ctx, q, started, s)
}

// hold starts n runs and returns when the approvals service keeps a question of
// each.
func (d *deployment) hold(ctx context.Context, q *questions, n int) error {
	rows := func() (int, error) {
		s, err := q.client.JS.Stream(ctx, "KV_"+crumbs.BucketApprovals)
		if err != nil {
			return 0, err
		}
		return int(s.CachedInfo().State.Msgs), nil
	}
	there, err := rows()
	if err != nil {
		return err
	}
	said := time.Now()
	for asked, open := 0, 0; open < n; {
		for ; asked < n && asked-open < scaleAtOnce; asked++ {
			if _, err := q.ask(ctx); err != nil {
				return err
			}
		}
		if open, err = rows(); err != nil {
			return err
		}
		open -= there
		if time.Since(said) > scaleInterval {
			said = time.Now()
			fmt.Fprintf(os.Stderr, "bench: %d of %d runs wait\n", open, n)
		}
		if asked == n && open < n || asked-open >= scaleAtOnce {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(scaleLook / 5):
			}
		}
	}
	return nil
}

// operate measures what a person does among so many waiting runs.
func (d *deployment) operate(ctx context.Context, q *questions, started <-chan crumbs.CallID, s *Scale) error {
	var open []crumbs.HumanRequired // the oldest
	timed := func(name string, f func() error) error {
		var all []time.Duration
		for range scaleLists {
			began := time.Now()
			if err := f(); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, time.Since(began))
		}
		s.add(name, all)
		return nil
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{fmt.Sprintf("runs.list, the %d newest that are suspended", scalePage), func() error {
			_, err := q.api.Runs(ctx, crumbs.RunList{Status: "suspended", Limit: scalePage})
			return err
		}},
		{fmt.Sprintf("approvals.list, the %d oldest open", scalePage), func() error {
			page, err := q.api.Approvals(ctx, decision.Query{Status: decision.StatusOpen, Limit: scalePage})
			open = open[:0]
			for _, a := range page.Approvals {
				open = append(open, *a.Checkpoint)
			}
			if err == nil && len(open) < scaleLists {
				err = errors.New("too few questions")
			}
			return err
		}},
		{"runs.get", func() error { _, err := q.api.RunView(ctx, open[0].RunID); return err }},
		{"decision → resumed tool starts", func() error {
			h := open[0]
			open = open[1:]
			if _, err := q.api.Resume(ctx, h.CheckpointID, client.Approve(h, crumbs.Principal{Issuer: "bench", Subject: "ada"})); err != nil {
				return err
			}
			select {
			case <-started:
				return nil
			case <-time.After(runMax):
				return errors.New("the tool did not start")
			}
		}},
	} {
		if err := timed(step.name, step.do); err != nil {
			return err
		}
	}
	return d.restarts(ctx, s)
}

// restarts measures how long each service takes from kill -9 until it serves again.
func (d *deployment) restarts(ctx context.Context, s *Scale) error {
	for i, p := range d.procs {
		if p.http == "" {
			continue
		}
		if err := p.cmd.Process.Kill(); err != nil {
			return err
		}
		_ = p.cmd.Wait() // says that it was killed
		again := exec.CommandContext(ctx, p.cmd.Path, p.cmd.Args[1:]...)
		again.Stderr = p.said
		began := time.Now()
		if err := again.Start(); err != nil {
			return err
		}
		d.procs[i].cmd = again
		for !p.serves(ctx) {
			if time.Since(began) > scaleUp {
				return fmt.Errorf("%s does not serve again: %s", p.name, p.said)
			}
			<-time.After(scaleLook / 10)
		}
		s.add(p.name+": process starts → serves", []time.Duration{time.Since(began)})
	}
	return nil
}

func (s *Scale) add(name string, all []time.Duration) {
	s.Operations = append(s.Operations, latency(name, "ms", all))
}

func (s *Scale) print(text *table) {
	if s.Runs == 0 {
		return
	}
	text.line("\n%d suspended runs, every process its own\tall asked after %.0f s", s.Runs, s.Seconds)
	for _, h := range s.Bytes {
		text.line("  bytes a run in %s\t%.0f", h.Stream, h.Bytes)
	}
	text.line("\nprocess\tMB without\tMB with\tgoroutines without\twith\t%% of a core idle without\twith")
	for _, p := range s.Processes {
		text.line("%s\t%.1f\t%.1f\t%d\t%d\t%.2f\t%.2f", p.Name, p.BeforeMB, p.AfterMB, p.Goroutines, p.GoroutinesThen, p.CoreBefore, p.CoreAfter)
	}
	text.line("\nwith them\tcount\tp50\tmax")
	for _, l := range s.Operations {
		text.line("%s\t%d\t%.1f ms\t%.1f ms", l.Name, l.Count, l.P50, l.Max)
	}
}
