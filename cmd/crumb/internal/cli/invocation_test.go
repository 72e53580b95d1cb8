package cli

import (
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// A refusal that may pass says when, and is a failure, not a usage error.
func TestExplain_SaysWhenToTryAgain(t *testing.T) {
	t.Parallel()
	full := fault.New(fault.QueueFull, "the mesh takes no new runs now; try again later")
	full.RetryAfterMs = 1000
	f, lines := explain(full)
	if len(lines) != 1 || lines[0] != "QUEUE_FULL: the mesh takes no new runs now; try again later (in 1s)" || f.RetryAfterMs != 1000 || statusOf(f.Code) != statusFailed {
		t.Errorf("%q %+v, status %d", lines, f, statusOf(f.Code))
	}
}
