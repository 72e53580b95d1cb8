package mesh

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Whoever makes a mesh on a cluster that is just starting is told to try again;
// what no waiting mends is a fault of the configuration.
func TestTopologyError_TellsWhatWaitingMends(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		code fault.Code
		want string
	}{
		{"a server is not up yet", &jetstream.APIError{ErrorCode: codeNoPeers, Description: "no suitable peers for placement, peer offline"}, fault.Unavailable, "peer offline"},
		{"no storage", &jetstream.APIError{ErrorCode: codeNoStorage, Description: "insufficient storage resources available"}, fault.InvalidConfig, "max_file_store"},
		{"another refusal", &jetstream.APIError{ErrorCode: 10052, Description: "stream configuration update can not change retention policy"}, fault.InvalidConfig, "retention policy"},
		{"no answer", errors.New("nats: timeout"), fault.Unavailable, "stream X"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := topologyError("stream X", c.err)
			if fault.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s with %q", err, c.code, c.want)
			}
		})
	}
}
