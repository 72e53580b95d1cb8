package process

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// probeTimeout bounds reading one request of a probe and writing its answer.
const probeTimeout = 10 * time.Second

// Probes answers /livez, /readyz and /metrics.
type Probes struct {
	Address string // where it listens, the port known
	server  *http.Server
}

// Listen serves the probes; a nil page leaves /metrics out. It fails with
// INVALID_CONFIG when the address cannot be listened on, calling it what whoever set
// it calls it: a flag or a variable.
func Listen(setting, address string, health func() error, page http.Handler) (*Probes, error) {
	if _, port, err := net.SplitHostPort(address); err != nil || !isPort(port) {
		return nil, fault.New(fault.InvalidConfig, "%s %q: expected HOST:PORT like 127.0.0.1:8480, or an empty text for none", setting, address)
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidConfig, err, "%s %s: %v; another process may have it: choose another address", setting, address, err)
	}
	p := &Probes{Address: l.Addr().String(), server: &http.Server{Handler: probeHandler(health, page), ReadTimeout: probeTimeout, WriteTimeout: probeTimeout}}
	go func() { _ = p.server.Serve(l) }() // ends with Close
	return p, nil
}

func isPort(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

// Close stops listening.
func (p *Probes) Close() { _ = p.server.Close() }

// probeHandler answers 200 on /livez while the process runs, on /readyz 200 when
// every service serves, else 503 with one reason a line.
func probeHandler(health func() error, page http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := health(); err != nil {
			http.Error(w, strings.TrimSpace(err.Error()), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	if page != nil {
		mux.Handle("GET /metrics", page)
	}
	return mux
}
