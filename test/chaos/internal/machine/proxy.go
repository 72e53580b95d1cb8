package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Proxies is a running toxiproxy, asked over its HTTP interface.
type Proxies struct {
	Process *Process
	api     string
	client  http.Client
	all     []proxy
}

// proxy is one way through.
type proxy struct {
	Name     string `json:"name"`
	Listen   string `json:"listen"`
	Upstream string `json:"upstream"`
	Enabled  bool   `json:"enabled"`
}

// Toxiproxy starts the program.
func (m *Machine) Toxiproxy(ctx context.Context, program string) (*Proxies, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	const askMax = 5 * time.Second
	api := "http://127.0.0.1:" + port
	p := &Proxies{api: api, client: http.Client{Timeout: askMax}}
	p.Process = m.Keep(Command{Name: "toxiproxy", Args: []string{program, "-host", "127.0.0.1", "-port", port}, Ready: api + "/version"})
	if !p.Process.AwaitReady(ctx) {
		return nil, errors.New("toxiproxy did not answer")
	}
	return p, nil
}

// Add makes a proxy to an address and returns where it listens.
func (p *Proxies) Add(ctx context.Context, name, upstream string) (listen string, err error) {
	port, err := FreePort()
	if err != nil {
		return "", err
	}
	one := proxy{Name: name, Listen: "127.0.0.1:" + port, Upstream: upstream, Enabled: true}
	p.all = append(p.all, one)
	return one.Listen, p.ask(ctx, http.MethodPost, "/proxies", one)
}

// Enable lets a proxy listen, or cuts its connections and refuses new ones.
func (p *Proxies) Enable(ctx context.Context, name string, on bool) error {
	return p.ask(ctx, http.MethodPost, "/proxies/"+name, map[string]any{"enabled": on})
}

// Slow delays what passes the proxies, each way.
func (p *Proxies) Slow(ctx context.Context, delay, jitter time.Duration) error {
	for _, one := range p.all {
		for _, stream := range streams() {
			toxic := map[string]any{"name": stream, "type": "latency", "stream": stream,
				"attributes": map[string]any{"latency": delay.Milliseconds(), "jitter": jitter.Milliseconds()}}
			if err := p.ask(ctx, http.MethodPost, "/proxies/"+one.Name+"/toxics", toxic); err != nil {
				return err
			}
		}
	}
	return nil
}

// Fast undoes Slow. Toxiproxy 2.5 may lock itself up when a connection ends just
// then: it is started anew, which cuts all connections.
func (p *Proxies) Fast(ctx context.Context) error {
	for _, one := range p.all {
		for _, stream := range streams() {
			if err := p.ask(ctx, http.MethodDelete, "/proxies/"+one.Name+"/toxics/"+stream, nil); err != nil {
				return p.anew(ctx)
			}
		}
	}
	return nil
}

func streams() []string { return []string{"upstream", "downstream"} }

// anew starts the program again, with the proxies where they were.
func (p *Proxies) anew(ctx context.Context) error {
	p.Process.Kill(0)
	if !p.Process.AwaitReady(ctx) {
		return errors.New("toxiproxy did not come back")
	}
	for _, one := range p.all {
		if err := p.ask(ctx, http.MethodPost, "/proxies", one); err != nil {
			return err
		}
	}
	return nil
}

func (p *Proxies) ask(ctx context.Context, method, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, p.api+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return fmt.Errorf("toxiproxy: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	const answerMax = 4 << 10
	if resp.StatusCode >= http.StatusBadRequest {
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, answerMax)) // for the message only
		return fmt.Errorf("toxiproxy %s %s: %s: %s", method, path, resp.Status, answer)
	}
	return nil
}
