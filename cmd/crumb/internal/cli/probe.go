package cli

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// probeTimeout bounds reading one request of a probe.
const probeTimeout = 5 * time.Second

// probes answers /livez and /readyz.
type probes struct {
	address string
	server  *http.Server
}

// listen serves the probes. It fails with INVALID_CONFIG when the address is taken.
func listen(address string, health func() error) (*probes, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidConfig, err, "--http %s: %v; is another `crumb dev` running? choose another address", address, err)
	}
	p := &probes{address: l.Addr().String(), server: &http.Server{Handler: probeHandler(health), ReadTimeout: probeTimeout}}
	go func() { _ = p.server.Serve(l) }() // ends with close
	return p, nil
}

func (p *probes) close() { _ = p.server.Close() }

// probeHandler answers 200 on /livez while the process runs, on /readyz 200 when
// every service serves, else 503 with one reason a line.
func probeHandler(health func() error) http.Handler {
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
	return mux
}
