//go:build e2e

package compose_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// collector is as much of the collector's configuration as fits the other files.
type collector struct {
	Receivers struct {
		OTLP struct {
			Protocols map[string]struct{ Endpoint string }
		} `yaml:"otlp"`
	}
	Processors map[string]any
	Exporters  map[string]struct{ Endpoint string }
	Service    struct {
		Pipelines map[string]struct{ Receivers, Processors, Exporters []string }
	}
}

// What the services push arrives where the collector listens, goes through parts
// that it has, and is scraped from the port that is published.
func TestE2E_Compose_CollectorFits(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "deploy/otel/collector.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c collector
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	p := project(t)
	for name, s := range serving(p) {
		if endpoint := s.Environment["OTEL_EXPORTER_OTLP_ENDPOINT"]; endpoint != nil {
			port := c.Receivers.OTLP.Protocols["http"].Endpoint[strings.LastIndex(c.Receivers.OTLP.Protocols["http"].Endpoint, ":"):]
			if want := "http://collector" + port; *endpoint != want {
				t.Errorf("%s pushes to %s, the collector listens on %s", name, *endpoint, want)
			}
		}
	}
	for name, pipeline := range c.Service.Pipelines {
		for _, part := range pipeline.Processors {
			if _, ok := c.Processors[part]; !ok {
				t.Errorf("pipeline %s: there is no processor %s", name, part)
			}
		}
		for _, part := range pipeline.Exporters {
			if _, ok := c.Exporters[part]; !ok {
				t.Errorf("pipeline %s: there is no exporter %s", name, part)
			}
		}
		if !slices.Equal(pipeline.Receivers, []string{"otlp"}) {
			t.Errorf("pipeline %s receives from %v", name, pipeline.Receivers)
		}
	}
	for _, signal := range []string{"traces", "metrics"} {
		if _, ok := c.Service.Pipelines[signal]; !ok {
			t.Errorf("there is no pipeline for %s, which the services push", signal)
		}
	}
	ports := p.Services["collector"].Ports
	if len(ports) != 1 || !strings.HasSuffix(c.Exporters["prometheus"].Endpoint, ":"+ports[0].Published) {
		t.Errorf("the collector's metrics are on %s, published is %+v", c.Exporters["prometheus"].Endpoint, ports)
	}
}
