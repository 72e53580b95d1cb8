package local

import (
	"slices"
	"testing"
)

// A group's command is nobody on the server of `crumb dev`, whoever `crumb dev`'s own
// environment says it is elsewhere, and is told nothing that it would refuse.
func TestInherited_NobodyElsewhere(t *testing.T) {
	t.Parallel()
	got := inherited([]string{"PATH=/bin", "NATS_NKEY=/k", "NATS_CREDS=/c", "CRUMB_CONFIG=dev.yaml", "CRUMB_INBOX_PREFIX=_INBOX.x", "CRUMB_JS_API_PREFIX=MESHJS",
		"CRUMB_TLS_CA=/ca", "CRUMB_TLS_CERT=/crt", "CRUMB_TLS_KEY=/key", "CRUMB_HTTP=:8480", "CRUMB_DIR=.", "CRUMB_SLOTS=2", "CRUMB_WAIT=5s", "LEDGER_TOKEN=t"})
	if want := []string{"PATH=/bin", "CRUMB_SLOTS=2", "CRUMB_WAIT=5s", "LEDGER_TOKEN=t"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
