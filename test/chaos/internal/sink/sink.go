// Package sink is the world that tools act on: an HTTP server that remembers every
// execution in the order in which they came.
package sink

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/crumbmesh/crumbmesh/test/chaos/internal/check"
)

// Path is where tools post their executions, as a check.Effect.
const Path = "/effects"

const (
	// KeyHeader carries the idempotency key.
	KeyHeader = "Idempotency-Key"

	bodyMax = 64 << 10
	readMax = 10 * time.Second
)

// Sink is a running server.
type Sink struct {
	URL    string
	server *http.Server

	mu  sync.Mutex
	all []check.Effect
}

// Listen starts a sink on the loopback.
func Listen() (*Sink, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Sink{URL: "http://" + l.Addr().String() + Path}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Path, s.take)
	s.server = &http.Server{Handler: mux, ReadTimeout: readMax, WriteTimeout: readMax}
	go func() { _ = s.server.Serve(l) }() // ends with Close
	return s, nil
}

func (s *Sink) take(w http.ResponseWriter, r *http.Request) {
	var e check.Effect
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyMax)).Decode(&e); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	e.Key = r.Header.Get(KeyHeader)
	s.mu.Lock()
	e.At = time.Now()
	s.all = append(s.all, e)
	s.mu.Unlock()
	w.WriteHeader(http.StatusCreated)
}

// Effects are the executions so far.
func (s *Sink) Effects() []check.Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]check.Effect(nil), s.all...)
}

// Close stops listening.
func (s *Sink) Close() { _ = s.server.Close() }
