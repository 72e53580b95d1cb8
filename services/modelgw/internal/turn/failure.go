package turn

import (
	"fmt"
	"net/http"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// StatusOverloaded is what some providers answer when they have no capacity.
const StatusOverloaded = 529

// Failure is why a turn failed, and whether another attempt may work. An error
// of an adapter that is no Failure is not retryable.
type Failure struct {
	Fault     *fault.Error
	Retryable bool
}

// Error renders the fault.
func (f *Failure) Error() string { return f.Fault.Error() }

// Unwrap returns the fault.
func (f *Failure) Unwrap() error { return f.Fault }

// Refused returns the Failure of an HTTP status: MODEL_ERROR naming it, with the
// wait the provider asked for (0: none).
func Refused(provider string, status int, wait time.Duration, detail string) *Failure {
	e := fault.New(fault.ModelError, "provider %s answered %s", provider, statusText(status))
	if detail != "" {
		e.Message += ": " + detail
	}
	e.RetryAfterMs = wait.Milliseconds()
	return &Failure{Fault: e.With("status", status), Retryable: retryable(status)}
}

// retryable reports statuses that say nothing about the request itself: a
// timeout, a lock held by another, too many requests, a fault of the server
// (529 included).
func retryable(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return true
	}
	return status >= http.StatusInternalServerError
}

func statusText(status int) string {
	text := http.StatusText(status)
	if status == StatusOverloaded {
		text = "Overloaded"
	}
	if text == "" {
		return fmt.Sprint(status)
	}
	return fmt.Sprintf("%d %s", status, text)
}
