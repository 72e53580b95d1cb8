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
	address  string
	listener net.Listener
	server   *http.Server // nil before serve
}

// bind takes the address of the probes; they are answered from serve on. It fails
// with INVALID_CONFIG when the address is taken.
func bind(address string) (*probes, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidConfig, err, "--http %s: %v; is another `crumb dev` running? choose another address", address, err)
	}
	return &probes{address: l.Addr().String(), listener: l}, nil
}

// serve answers the probes until close.
func (p *probes) serve(health func() error) {
	p.server = &http.Server{Handler: probeHandler(health), ReadTimeout: probeTimeout}
	go func() { _ = p.server.Serve(p.listener) }() // ends with close
}

func (p *probes) close() {
	if p.server != nil {
		_ = p.server.Close()
	}
	_ = p.listener.Close() // closed already by a server that began
}

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
