package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// What a child process is told.
const (
	childServer = "CRUMBMESH_BENCH_SERVER"
	childKey    = "CRUMBMESH_BENCH_KEY"
)

const (
	kill9Rounds   = 3
	kill9InFlight = 32
	kill9Lead     = time.Second // of load before the kill
)

// child is an orchestrator in a process of its own.
func child(ctx context.Context, url string) error {
	v, err := decision.NewVerifier(os.Getenv(childKey))
	if err != nil {
		return err
	}
	conn, err := mesh.Connect(ctx, mesh.ConnectConfig{Server: url, Name: "orchestrator", Settings: mesh.DevSettings()})
	if err != nil {
		return err
	}
	defer conn.Close()
	return orchestrator.Run(ctx, orchestrator.Config{Verify: v.Verify, Ready: func() { fmt.Println("ready") }}, conn)
}

// replica is a child process that serves.
type replica struct{ cmd *exec.Cmd }

func (l *live) replica(ctx context.Context) (*replica, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childServer+"="+l.site.URL(), childKey+"="+l.key.Public())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, fmt.Errorf("an orchestrator did not become ready: %w", err)
	}
	return &replica{cmd}, nil
}

// kill ends the process as the kernel does when memory is short.
func (r *replica) kill() error {
	if err := r.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = r.cmd.Wait() // says that it was killed
	return nil
}

// kills measures how long runs stand still when one of two orchestrators dies
// under load.
func kills(ctx context.Context, o options, dir string, report *Report) error {
	const anyPort = -1
	l, err := newLive(ctx, dir, "kill", parts{port: anyPort})
	if err != nil {
		return err
	}
	defer l.stop()
	keep, err := l.replica(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = keep.kill() }()
	if err := l.apply(ctx); err != nil {
		return err
	}
	if err := warm(ctx, l, o.warm); err != nil {
		return err
	}
	w, err := newWitness(l)
	if err != nil {
		return err
	}
	var stood []time.Duration
	for range kill9Rounds {
		victim, err := l.replica(ctx)
		if err != nil {
			return err
		}
		longest, err := l.killUnderLoad(ctx, victim, w)
		if err != nil {
			return err
		}
		stood = append(stood, longest)
	}
	report.add(fmt.Sprintf("kill -9 of one of two orchestrators → every run in flight (%d) goes on elsewhere", kill9InFlight), "ms", stood)
	return nil
}

// killUnderLoad returns how long after the kill the last of the runs then in
// flight made its next crumb.
func (l *live) killUnderLoad(ctx context.Context, victim *replica, w *witness) (time.Duration, error) {
	var over atomic.Bool
	var failed atomic.Pointer[error]
	var load sync.WaitGroup
	for range kill9InFlight {
		load.Go(func() {
			for !over.Load() {
				if err := one(ctx, l); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
			}
		})
	}
	<-time.After(kill9Lead)
	inFlight := w.inFlight()
	if err := victim.kill(); err != nil {
		return 0, err
	}
	killed := time.Now()
	longest, err := w.progress(inFlight, killed)
	over.Store(true)
	load.Wait()
	if f := failed.Load(); f != nil {
		err = errors.Join(err, *f)
	}
	return longest, err
}

// witness sees the crumbs of runs.
type witness struct {
	mu      sync.Mutex
	running map[crumbs.RunID]time.Time // by run that has not ended: its last crumb
	ended   map[crumbs.RunID]time.Time
}

func newWitness(l *live) (*witness, error) {
	w := &witness{running: map[crumbs.RunID]time.Time{}, ended: map[crumbs.RunID]time.Time{}}
	_, err := l.client.NATS.Subscribe(crumbs.SubjectCrumbs, func(m *nats.Msg) {
		const runToken, verbToken = 2, 5
		run, now := crumbs.RunID(crumbs.Token(m.Subject, runToken)), time.Now()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.running[run] = now
		if crumbs.Token(m.Subject, verbToken) == "end" {
			delete(w.running, run)
			w.ended[run] = now
		}
	})
	return w, err
}

func (w *witness) inFlight() []crumbs.RunID {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []crumbs.RunID
	for run := range w.running {
		all = append(all, run)
	}
	return all
}

// progress waits until each run made a crumb after an instant.
func (w *witness) progress(runs []crumbs.RunID, after time.Time) (longest time.Duration, err error) {
	const look = 10 * time.Millisecond
	first := map[crumbs.RunID]time.Time{}
	for time.Since(after) < runMax {
		w.mu.Lock()
		for _, run := range runs {
			at, going := w.running[run]
			if !going {
				at = w.ended[run]
			}
			if _, seen := first[run]; !seen && at.After(after) {
				first[run] = at
			}
		}
		w.mu.Unlock()
		missing := 0
		for _, run := range runs {
			at, seen := first[run]
			if !seen && w.endedBefore(run, after) {
				continue
			}
			if !seen {
				missing++
				continue
			}
			longest = max(longest, at.Sub(after))
		}
		if missing == 0 {
			return longest, nil
		}
		<-time.After(look)
	}
	return 0, errors.New("runs in flight at the kill did not go on")
}

// endedBefore reports runs that ended between the look and the kill.
func (w *witness) endedBefore(run crumbs.RunID, at time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, ok := w.ended[run]
	return ok && !e.After(at)
}
