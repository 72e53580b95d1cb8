package cli

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

func TestHealth_AsksWhereTheServiceListens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		cmd  healthCommand
		want string
	}{
		{"an address", healthCommand{Address: "10.1.2.3:8481"}, "http://10.1.2.3:8481/readyz"},
		{"everywhere", healthCommand{Address: "0.0.0.0:8481"}, "http://127.0.0.1:8481/readyz"},
		{"everywhere, IPv6", healthCommand{Address: "[::]:8481"}, "http://127.0.0.1:8481/readyz"},
		{"no host", healthCommand{Address: ":8481", Live: true}, "http://127.0.0.1:8481/livez"},
		{"a URL", healthCommand{Address: "https://mesh.example:8481"}, "https://mesh.example:8481/readyz"},
		{"a URL with its path", healthCommand{Address: "http://mesh.example/up?x=1"}, "http://mesh.example/up?x=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := c.cmd.url()
			if err != nil || got != c.want {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
	for _, address := range []string{"8481", "localhost", "ftp://host/x", "http://"} {
		if got, err := (healthCommand{Address: address}).url(); fault.CodeOf(err) != fault.InvalidConfig {
			t.Errorf("%q: got %q, %v; want INVALID_CONFIG", address, got, err)
		}
	}
}

func TestHealth_SaysWhatTheServiceSays(t *testing.T) {
	t.Parallel()
	down := errors.New("no leader of RUNS")
	for _, c := range []struct {
		name   string
		health error
		live   bool
		want   string // of the error; none when empty
	}{
		{name: "serving"},
		{name: "not serving", health: down, want: "no leader of RUNS"},
		{name: "not serving, but alive", health: down, live: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.health != nil && r.URL.Path == readyPath {
					http.Error(w, c.health.Error(), http.StatusServiceUnavailable)
				}
			}))
			t.Cleanup(s.Close)
			asked, err := healthCommand{Address: s.Listener.Addr().String(), Live: c.live}.url()
			if err != nil {
				t.Fatal(err)
			}
			err = ask(t.Context(), asked)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("got %v, want no error", err)
			case c.want != "" && (fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want UNAVAILABLE with %q", err, c.want)
			}
		})
	}
}

func TestHealth_NobodyListens(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	gone := s.URL
	s.Close()
	if err := ask(t.Context(), gone+readyPath); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("got %v, want UNAVAILABLE", err)
	}
}
