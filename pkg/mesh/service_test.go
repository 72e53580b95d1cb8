package mesh_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// A service that stops answers what it has in hand, then nothing: its callers hear
// what was done, or that nobody is there.
func TestService_StopAnswersWhatIsInHand(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	conn, entered, release := m.Connect("service"), make(chan struct{}), make(chan struct{})
	s, err := conn.Serve("pets", "for this test", mesh.Endpoint{Name: "feed", Handle: func(context.Context, json.RawMessage) (any, error) {
		close(entered)
		<-release
		return "fed", nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	var said string
	go func() { answered <- m.Conn.Request(t.Context(), "crumbmesh.pets.feed", struct{}{}, &said) }()
	<-entered
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		conn.Close()
	}()
	select {
	case <-stopped:
		t.Error("stopped with a request in hand")
	default:
	}
	close(release)
	<-stopped
	if err := <-answered; err != nil || said != "fed" {
		t.Errorf("answer %q, %v", said, err)
	}
	if err := m.Conn.Request(t.Context(), "crumbmesh.pets.feed", struct{}{}, &said); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("after the stop: %v", err)
	}
}
