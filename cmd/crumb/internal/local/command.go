package local

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/reload"
	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/supervise"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/process"
)

// Environment of a group's command, beside process.ParentVariable: its worker ends when
// this process is gone.
const (
	envServer = "NATS_URL"
	envGroup  = "CRUMB_GROUP"
	envKey    = "CRUMB_APPROVALS_PUBKEY" // the approvals service's public key
)

// A command that was started is looked for among the workers after upAsk, then after
// waits that double up to upAskMax: it may never say that it is one.
const (
	upAsk    = 100 * time.Millisecond
	upAskMax = 2 * time.Second
)

// command keeps a group's command running, and starts it anew when what it is made
// of changes:
//
//	change ─▶ a worker serves? ─no─▶ the running command is stopped, then started
//	               │ yes
//	          a second one starts beside it ─▶ serves ─▶ the first one drains
//	               └────▶ ends before: the first one goes on
//
// It is ready at once: a worker that takes a while to build or to start lets its
// calls wait, and the runs that need a tool which it has yet to announce.
type command struct {
	mesh  *Mesh
	group string
	dir   string
	cfg   agent.Group
	news  chan report
	all   sync.WaitGroup
}

// report is what became of a trial.
type report struct {
	of  *trial
	up  bool
	end string // why it ended, when it was never up
}

// trial is one start of the command, and what keeps it running afterwards.
type trial struct {
	stop  context.CancelFunc // at once
	drain func()             // in its own time
	done  chan struct{}

	mu sync.Mutex
	up bool
}

func (m *Mesh) command(dir, group string, cfg agent.Group) func(context.Context, hooks) error {
	return func(ctx context.Context, h hooks) error {
		c := &command{mesh: m, group: group, dir: dir, cfg: cfg, news: make(chan report)}
		h.ready()
		return c.run(ctx)
	}
}

func (c *command) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer c.all.Wait()
	defer cancel()
	var changes <-chan struct{}
	if len(c.cfg.Watch) > 0 {
		var err error
		if changes, err = reload.Paths(ctx, c.dir, c.cfg.Watch...); err != nil {
			return err
		}
	}
	now, next := c.begin(ctx, true), (*trial)(nil)
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-changes:
			if !ok {
				changes = nil // the system tells no more
				continue
			}
			now, next = c.changed(ctx, now, next)
		case r := <-c.news:
			now, next = c.settled(r, now, next)
		}
	}
}

// changed starts the command as it is now. What serves goes on until the new one
// does; what does not serve has nothing to lose.
func (c *command) changed(ctx context.Context, now, next *trial) (*trial, *trial) {
	if next != nil {
		next.end()
	}
	if !c.serves(ctx) {
		now.end()
		c.say("started again: its files changed")
		return c.begin(ctx, true), nil
	}
	c.say("its files changed: starting it anew, what serves goes on until it is up")
	return now, c.begin(ctx, false)
}

// settled hears what became of a start.
func (c *command) settled(r report, now, next *trial) (*trial, *trial) {
	switch {
	case r.of == now && r.up:
		c.say("up")
	case r.of == now:
		c.say("not up: it ended with " + r.end + "; it is started again, and when its files change")
	case r.of == next && r.up:
		c.say("up with the change; the one from before finishes what it has")
		now.drain() // nobody waits for it but the end of all
		return next, nil
	case r.of == next:
		c.say("the change does not start: it ended with " + r.end + "; what served before goes on")
		next.stop()
		return now, nil
	}
	return now, next
}

func (c *command) say(text string) {
	if c.mesh.cfg.Worker != nil {
		c.mesh.cfg.Worker(c.group, text)
	}
}

// serves reports whether the group has a worker. Without an answer it is taken to
// have one: that stops nothing.
func (c *command) serves(ctx context.Context) bool {
	workers, err := c.mesh.conn.Serving(ctx, c.group)
	return err != nil || len(workers) > 0
}

// begin starts the command. A first one is kept running whatever happens; one beside
// it only once it was up.
func (c *command) begin(parent context.Context, first bool) *trial {
	ctx, stop := context.WithCancel(parent)
	draining := make(chan struct{})
	t := &trial{stop: stop, drain: sync.OnceFunc(func() { close(draining) }), done: make(chan struct{})}
	before, err := c.mesh.conn.Serving(ctx, c.group)
	if err != nil {
		c.mesh.cfg.Log.Warn("the workers of a group are not known", "group", c.group, "error", err)
	}
	waiting, awaited := context.WithCancel(ctx)
	if first {
		c.announce(waiting)
	}
	told := sync.OnceFunc(awaited)
	kept := supervise.Command{
		Name: c.group, Argv: c.cfg.Command, Dir: c.dir, Log: c.mesh.cfg.Log,
		Env:    append(inherited(os.Environ()), envServer+"="+c.mesh.URL(), envGroup+"="+c.group, envKey+"="+c.mesh.PublicKey(), process.ParentVariable+"="+process.ParentStdin),
		Output: func(line string) { c.mesh.cfg.Output(c.group, line) },
		Drain:  draining,
		Again: func(end string) bool {
			up := t.isUp()
			if !up && waiting.Err() == nil {
				told()
				c.report(ctx, report{of: t, end: end})
			}
			return up || first
		},
	}
	c.all.Go(func() {
		defer close(t.done)
		kept.Run(ctx)
	})
	c.all.Go(func() {
		if c.awaitUp(ctx, before) && t.rise() {
			told()
			c.report(ctx, report{of: t, up: true})
		}
	})
	return t
}

// passed are the CRUMB_ variables that a group's command gets as they are.
var passed = []string{"CRUMB_SLOTS", "CRUMB_GRACE", "CRUMB_WAIT", "CRUMB_LOG_LEVEL", "CRUMB_LOG_FORMAT"}

// inherited is an environment without what says who one is on another mesh: this
// one's server knows nobody. Of what the product reads only that is left which every
// worker of this mesh may be told: not an address, of which a second worker beside
// the first would find that it is taken, nor what `crumb dev` is told, which a worker
// refuses.
func inherited(environment []string) []string {
	return slices.DeleteFunc(slices.Clone(environment), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return name == "NATS_NKEY" || name == "NATS_CREDS" || strings.HasPrefix(name, "CRUMB_") && !slices.Contains(passed, name)
	})
}

// announce says, until ctx ends, that a worker of the group is on its way.
func (c *command) announce(ctx context.Context) {
	if _, err := c.mesh.conn.AnnounceStarting(ctx, c.group); err != nil {
		c.mesh.cfg.Log.Warn("runs do not wait for a group that starts", "group", c.group, "error", err)
	}
}

// awaitUp waits for a worker of the group that was not there before.
func (c *command) awaitUp(ctx context.Context, before []string) bool {
	for wait := upAsk; ; wait = min(2*wait, upAskMax) {
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return false
		case <-t.C:
		}
		workers, err := c.mesh.conn.Serving(ctx, c.group)
		if err == nil && slices.ContainsFunc(workers, func(w string) bool { return !slices.Contains(before, w) }) {
			return true
		}
	}
}

func (c *command) report(ctx context.Context, r report) {
	select {
	case c.news <- r:
	case <-ctx.Done():
	}
}

func (t *trial) isUp() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.up
}

// rise marks the trial as up; false when it has ended.
func (t *trial) rise() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.done:
		return false
	default:
		t.up = true
		return true
	}
}

// end stops a trial and waits until its process group is gone.
func (t *trial) end() {
	t.stop()
	<-t.done
}
