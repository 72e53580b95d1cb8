package turn_test

import (
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/turn"
)

func TestRefused_Retryable(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{
		400: false, 401: false, 403: false, 404: false, 413: false, 422: false,
		408: true, 409: true, 429: true, 500: true, 503: true, turn.StatusOverloaded: true,
	} {
		f := turn.Refused("acme", status, 250*time.Millisecond, "")
		if f.Retryable != want {
			t.Errorf("status %d: retryable %v, want %v", status, f.Retryable, want)
		}
		if f.Fault.Code != fault.ModelError || f.Fault.RetryAfterMs != 250 || f.Fault.Context["status"] != status {
			t.Errorf("status %d: %+v", status, f.Fault)
		}
	}
}

func TestRefused_NamesStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		429:                   "MODEL_ERROR: provider acme answered 429 Too Many Requests: slow down",
		turn.StatusOverloaded: "MODEL_ERROR: provider acme answered 529 Overloaded: slow down",
		599:                   "MODEL_ERROR: provider acme answered 599: slow down",
	} {
		if got := turn.Refused("acme", status, 0, "slow down").Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
