package durability_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

const (
	killRuns    = 60 // at least
	killWave    = 12 // runs in flight
	killWaves   = 60 // until every kill took place
	killAskedBy = 4  // every such run asks a person before it pays
)

// Services as processes of their own are killed with SIGKILL at every point of
// the orchestrator's loop and around claims, effects, results and acks, and start
// again, while runs with parallel tools of all effects are under way.
func TestRun_SIGKILL_CF_N19_CF_H28(t *testing.T) {
	t.Parallel()
	c := newCampaign(t)
	c.keep("modelgw", "g", "claim:2", "result:3", "ack:2")
	c.keep("toolexec", "a", "claim:3", "effected.pay:2", "result:3", "effect.put:2")
	c.keep("toolexec", "b", "effect.pay:2", "ack:2", "effected.put:2")
	c.keep("approvals", "p", "decision:2", "ack:2")
	c.keep("orchestrator", "x", "read:4", "decided:3", "commands:2", "delivered:3")
	c.keep("orchestrator", "y", "helped:3", "written:2", "crumb:5", "trimmed:1")
	c.awaitReady()
	n := 0
	for wave := 0; n < scaled(t, killRuns) || c.armed() > 0; wave++ {
		if wave == killWaves {
			t.Fatalf("%d kills did not take place", c.armed())
		}
		n += c.wave(n)
	}
	c.empty(crumbs.StreamRequests, crumbs.StreamInbox, crumbs.StreamToolCalls, crumbs.StreamModelCalls)
	c.stop()
	c.account(n)
}

// campaign is the parent of the services.
type campaign struct {
	scene
	env     []string
	sink    string
	ready   sync.WaitGroup // each slot once
	running sync.WaitGroup
	quit    chan struct{}

	mu     sync.Mutex
	left   int             // kills that did not take place yet
	killed map[string]bool // by process name
}

func newCampaign(t *testing.T) *campaign {
	t.Helper()
	s := realTime(t, meshtest.WithListener())
	s.apply(clerk("clerk", turn("Looking.", call("peek"), call("put"), call("pay"), call("put"), call("pay")), turn("Done.")),
		asking(clerk("asker", turn("Looking.", call("put"), call("pay")), turn("Done.")), "pay"))
	dir := t.TempDir()
	c := &campaign{scene: s, sink: filepath.Join(dir, "sink"), quit: make(chan struct{}), killed: map[string]bool{}}
	if err := os.WriteFile(c.sink, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := decision.LoadOrCreate(filepath.Join(dir, "key")); err != nil {
		t.Fatal(err)
	}
	settings, err := json.Marshal(s.Mesh.Settings())
	if err != nil {
		t.Fatal(err)
	}
	c.env = append(os.Environ(), envServer+"="+strings.TrimPrefix(s.Mesh.Server.URL(), "nats://"), envSettings+"="+string(settings),
		envKey+"="+filepath.Join(dir, "key"), envSink+"="+c.sink)
	return c
}

// keep runs a service, each time with the next kill, and when none is left
// without one until the end.
func (c *campaign) keep(role, slot string, kills ...string) {
	c.mu.Lock()
	c.left += len(kills)
	c.mu.Unlock()
	c.ready.Add(1)
	c.running.Go(func() {
		first := sync.OnceFunc(c.ready.Done)
		defer first()
		for i := 0; ; i++ {
			kill := ""
			if i < len(kills) {
				kill = kills[i]
			}
			if !c.process(role, slot+itoa(i), kill, first) {
				return
			}
		}
	})
}

// process runs one process to its end and reports whether it was killed.
func (c *campaign) process(role, name, kill string, ready func()) bool {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(slices.Clone(c.env), envChild+"="+role, envName+"="+name, envKillAt+"="+kill)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err, err2, cmd.Start()); err != nil {
		c.t.Error(err)
		return false
	}
	lines := make(chan struct{})
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(stdout); in.Scan(); {
			ready()
		}
	}()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-c.quit:
			_ = stdin.Close()
		case <-ended:
		}
	}()
	<-lines
	err = cmd.Wait()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if kill != "" && status.Signaled() && status.Signal() == syscall.SIGKILL {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.killed[name], c.left = true, c.left-1
		return true
	}
	select {
	case <-c.quit:
	default:
		c.t.Errorf("%s %s (kill at %q) ended by itself: %v\n%s", role, name, kill, err, stderr.String())
	}
	if err != nil {
		c.t.Errorf("%s %s: %v\n%s", role, name, err, stderr.String())
	}
	_, _ = io.Copy(io.Discard, stdout)
	return false
}

func (c *campaign) awaitReady() { c.ready.Wait() }

func (c *campaign) stop() {
	close(c.quit)
	c.running.Wait()
}

func (c *campaign) armed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left
}

func killRun(i int) crumbs.RunID { return crumbs.RunID("run_" + itoa(i)) }

func asks(i int) bool { return i%killAskedBy == 0 }

// wave starts runs and waits until all have ended; it returns how many.
func (c *campaign) wave(first int) int {
	for i := first; i < first+killWave; i++ {
		agent := crumbs.AgentID("clerk")
		if asks(i) {
			agent = "asker"
		}
		c.Start(agent, killRun(i))
	}
	for i := first; i < first+killWave; i++ {
		if asks(i) && c.asked(killRun(i)) {
			c.Until("an answer is taken", func() bool { _, err := c.Approve(crumbs.ToolCallID(killRun(i), 1, 1)); return err == nil })
		}
	}
	for i := first; i < first+killWave; i++ {
		c.WaitEnd(killRun(i))
	}
	return killWave
}

// asked waits until a run asks a person; it reports false for one that ended before,
// because three gateways were killed over its model call.
func (c *campaign) asked(run crumbs.RunID) bool {
	c.t.Helper()
	all := c.WaitFor(run, func(s stored) bool { return s.Base.Type == crumbs.TypeHumanRequired || crumbs.Terminal(s.Base.Type) })
	return slices.ContainsFunc(all, func(s stored) bool { return s.Base.Type == crumbs.TypeHumanRequired })
}

// gatewaysLost reports whether a run failed because each of the three gateways that
// started its model call was killed.
func (h *history) gatewaysLost() bool {
	end := string(h.stored[len(h.stored)-1].Body)
	return h.code == fault.ModelError && strings.Contains(end, "was started "+itoa(mesh.StartsMax)+" times and no gateway lived to finish it")
}

// account holds what the crumbs say against what the tools did.
func (c *campaign) account(n int) {
	c.t.Helper()
	done := c.effects()
	unknown, lost := 0, 0
	for i := range n {
		h := account(c.t, c.Fleet, killRun(i))
		if h.gatewaysLost() {
			lost++
		} else {
			h.completed("Looking.Done.")
		}
		for id, outcome := range h.outcomes {
			tools := []string{"peek", "put", "pay", "put", "pay"}
			if asks(i) {
				tools = []string{"put", "pay"}
			}
			at := strings.TrimPrefix(string(id), string(killRun(i))+".1.")
			name := tools[at[0]-'0']
			ran := done[name+" "+string(id)]
			switch {
			case name == "pay" && ran > 1:
				c.t.Errorf("%s: %s ran %d times", id, name, ran)
			case outcome == "ok" && ran == 0:
				c.t.Errorf("%s: %s is ok and never ran", id, name)
			case outcome == "ok":
			case outcome == "unknown" && name == "pay" && c.killed[h.errors[id].Worker]:
				unknown++
			case outcome == "error" && name != "pay" && h.errors[id].Error.Code == fault.ToolLost && c.Claim(id, 1).Starts == mesh.StartsMax:
				lost++ // three of its workers were killed
			default:
				c.t.Errorf("%s: %s %s after %d executions: %+v", id, name, outcome, ran, h.errors[id])
			}
			delete(done, name+" "+string(id))
		}
	}
	for what := range done {
		c.t.Errorf("%s was executed for no call of its name", what)
	}
	c.t.Logf("%d runs, %d kills, %d unknown, %d lost", n, len(c.killed), unknown, lost)
	if unknown == 0 {
		c.t.Error("no kill fell into a `once` call: the campaign does not test it")
	}
}

// effects reads the sink: executions by tool and call.
func (c *campaign) effects() map[string]int {
	c.t.Helper()
	data, err := os.ReadFile(c.sink)
	if err != nil {
		c.t.Fatal(err)
	}
	done := map[string]int{}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		done[f[0]+" "+f[1]]++
	}
	return done
}
