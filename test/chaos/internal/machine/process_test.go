package machine_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/test/chaos/internal/machine"
)

// obedient ends with status 0 when it is told to, and writes its name first.
const obedient = `trap 'exit 0' TERM; echo "$CHAOS_NAME"; while :; do sleep 0.01; done`

// start keeps a shell script, and waits until its nth process has written its name.
func start(t *testing.T, script string) (m *machine.Machine, p *machine.Process, written func(name string)) {
	t.Helper()
	logs := t.TempDir()
	m = machine.New(logs)
	t.Cleanup(m.Stop)
	p = m.Keep(machine.Command{Name: "p", Args: []string{"sh", "-c", script}})
	return m, p, func(name string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(time.Millisecond) {
			if text, err := os.ReadFile(filepath.Join(logs, name+".log")); err == nil && strings.TrimSpace(string(text)) == name {
				return
			}
		}
		t.Fatalf("%s was not started", name)
	}
}

func exits(t *testing.T, m *machine.Machine) string {
	t.Helper()
	all, err := m.Exits()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range all {
		out = append(out, e.Process+" "+e.Asked+" "+e.Status)
	}
	return strings.Join(out, "; ")
}

func TestProcess_IsStartedAgain(t *testing.T) {
	t.Parallel()
	m, p, written := start(t, obedient)
	written("p.1")
	if name := p.Kill(0); name != "p.1" {
		t.Errorf("killed %q", name)
	}
	written("p.2")
	if name := p.Restart(t.Context()); name != "p.2" {
		t.Errorf("restarted %q", name)
	}
	written("p.3")
	p.Stop()
	if got, want := exits(t, m), "p.1 kill signal: killed; p.2 term exit status 0; p.3 term exit status 0"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A process that was paused goes on where it was.
func TestProcess_GoesOnAfterAPause(t *testing.T) {
	t.Parallel()
	m, p, written := start(t, obedient)
	written("p.1")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if name := p.Pause(over, time.Hour); name != "p.1" {
		t.Errorf("paused %q", name)
	}
	p.Stop()
	if got := exits(t, m); got != "p.1 term exit status 0" {
		t.Errorf("got %s", got)
	}
}

func TestProcess_SaysWhenOneEndsByItself(t *testing.T) {
	t.Parallel()
	m, _, written := start(t, `echo "$CHAOS_NAME"; exit 3`)
	written("p.1")
	for exits(t, m) == "" {
		<-time.After(time.Millisecond)
	}
	if got := exits(t, m); got != "p.1  exit status 3" {
		t.Errorf("got %q", got)
	}
}

func TestProcess_ThatIsNotThere(t *testing.T) {
	t.Parallel()
	m := machine.New(t.TempDir())
	t.Cleanup(m.Stop)
	p := m.Keep(machine.Command{Name: "p", Args: []string{filepath.Join(t.TempDir(), "none")}})
	defer p.Stop()
	for {
		if _, err := m.Exits(); err != nil {
			if !strings.Contains(err.Error(), "start p.1") {
				t.Errorf("got %v", err)
			}
			return
		}
		<-time.After(time.Millisecond)
	}
}
