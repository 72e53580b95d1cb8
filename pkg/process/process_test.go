package process

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

func newProcess(wait time.Duration) *process {
	return &process{cfg: Config{Service: "test", Wait: wait, Log: slog.New(slog.DiscardHandler)}, reason: fault.New(fault.Unavailable, "starting")}
}

// attempts replays what each attempt to start returns.
func attempts(results ...error) func(context.Context) error {
	n := 0
	return func(context.Context) error {
		err := results[min(n, len(results)-1)]
		n++
		return err
	}
}

// A process waits for NATS and the topology, readiness saying what it waits for,
// and gives up with that reason.
func TestProcess_WaitsForWhatMayCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, said := newProcess(5*time.Second), &strings.Builder{}
		p.cfg.Log = slog.New(slog.NewTextHandler(said, nil))
		began := time.Now()
		err := p.loop(t.Context(), attempts(fault.New(fault.Unavailable, "no server"), fault.New(fault.TopologyMissing, "no stream")))
		if !errors.Is(err, fault.Of(fault.TopologyMissing)) || !errors.Is(p.health(), fault.Of(fault.TopologyMissing)) {
			t.Errorf("ended with %v, readiness %v", err, p.health())
		}
		if waited := time.Since(began); waited < 5*time.Second || waited > 7*time.Second {
			t.Errorf("waited %s of 5s", waited)
		}
		for _, line := range []string{`msg="waiting for NATS" error="UNAVAILABLE: no server" for=5s`, `msg="waiting for the topology" error="TOPOLOGY_MISSING: no stream" for=4s`} {
			if strings.Count(said.String(), line) != 1 {
				t.Errorf("%s is not said once:\n%s", line, said)
			}
		}
	})
}

// What waiting cannot mend ends the process at once; so does the end of a service
// that has served.
func TestProcess_EndsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := newProcess(time.Hour).loop(t.Context(), attempts(fault.New(fault.InvalidConfig, "bad"))); !errors.Is(err, fault.Of(fault.InvalidConfig)) {
			t.Error(err)
		}
		p := newProcess(time.Hour)
		p.served = true
		if err := p.loop(t.Context(), attempts(fault.New(fault.Unavailable, "gone"))); !errors.Is(err, fault.Of(fault.Unavailable)) {
			t.Error(err)
		}
		if err := newProcess(time.Hour).loop(t.Context(), attempts(nil)); !errors.Is(err, fault.Of(fault.InternalError)) {
			t.Error(err)
		}
		if time.Since(began) != 0 {
			t.Error("it waited")
		}
	})
}

// A signal while it waits is no failure.
func TestProcess_StoppedWhileItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := newProcess(time.Hour).loop(ctx, attempts(fault.New(fault.Unavailable, "no server"))); err != nil {
			t.Error(err)
		}
	})
}
