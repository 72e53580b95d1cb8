package observability_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/crumbmesh/crumbmesh/pkg/telemetry/instrument"
)

var (
	alertsFile    = filepath.Join("..", "..", "deploy", "prometheus", "alerts.yml")
	dashboardFile = filepath.Join("..", "..", "deploy", "grafana", "crumbmesh.json")
)

// expressions are the PromQL of a file, by where they stand.
func alertExpressions(t *testing.T) map[string]string {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Expr        string            `yaml:"expr"`
				Labels      map[string]string `yaml:"labels"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	raw, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, &rules); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			out[r.Alert] = r.Expr
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s has no severity, summary or description", r.Alert)
			}
		}
	}
	return out
}

func dashboardExpressions(t *testing.T) map[string]string {
	t.Helper()
	var board struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
		Templating struct {
			List []struct {
				Name  string `json:"name"`
				Query any    `json:"query"`
			} `json:"list"`
		} `json:"templating"`
	}
	raw, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &board); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			out[p.Title] += target.Expr + "\n"
		}
	}
	for _, v := range board.Templating.List {
		if q, ok := v.Query.(map[string]any); ok {
			out["variable "+v.Name], _ = q["query"].(string)
		}
	}
	return out
}

var (
	metricName = regexp.MustCompile(`\b(?:crumbmesh|gen_ai)_[a-z_]+[a-z]\b`)
	selection  = regexp.MustCompile(`\b((?:crumbmesh|gen_ai)_[a-z_]+[a-z])\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
)

// onPage is the row of the table whose metric has that name on a page.
func onPage(name string) (instrument.Instrument, bool) {
	for _, i := range instrument.All() {
		if name == i.Prometheus() && i.Kind != instrument.Histogram {
			return i, true
		}
		if base, ok := strings.CutPrefix(name, i.Prometheus()); ok && i.Kind == instrument.Histogram && slices.Contains([]string{"_bucket", "_sum", "_count"}, base) {
			return i, true
		}
	}
	return instrument.Instrument{}, false
}

// isLabel reports whether some metric has a label of that name, which looks like a
// metric's (gen_ai_request_model).
func isLabel(name string) bool {
	return slices.ContainsFunc(instrument.All(), func(i instrument.Instrument) bool {
		return slices.ContainsFunc(i.Labels, func(l string) bool { return instrument.PrometheusLabel(l) == name })
	})
}

// Dashboard and alerts speak of metrics that exist and of labels they have, and
// every metric of the table is on the dashboard.
func TestDeploy_MetricsExist(t *testing.T) {
	t.Parallel()
	onBoard := map[string]bool{}
	for file, all := range map[string]map[string]string{"alerts.yml": alertExpressions(t), "crumbmesh.json": dashboardExpressions(t)} {
		if len(all) < 10 {
			t.Errorf("%s has %d expressions", file, len(all))
		}
		for where, expr := range all {
			for _, name := range metricName.FindAllString(expr, -1) {
				if isLabel(name) {
					continue
				}
				row, ok := onPage(name)
				if !ok {
					t.Errorf("%s, %s: there is no metric %s", file, where, name)
				}
				if file == "crumbmesh.json" {
					onBoard[row.Name] = true
				}
			}
			for _, sel := range selection.FindAllStringSubmatch(expr, -1) {
				row, _ := onPage(sel[1])
				for _, m := range matcher.FindAllStringSubmatch(sel[2], -1) {
					has := slices.ContainsFunc(row.Labels, func(l string) bool { return instrument.PrometheusLabel(l) == m[1] })
					if !has && m[1] != "instance" && m[1] != "job" {
						t.Errorf("%s, %s: %s has no label %s", file, where, sel[1], m[1])
					}
				}
			}
		}
	}
	for _, i := range instrument.All() {
		if !onBoard[i.Name] {
			t.Errorf("%s is on no panel of the dashboard", i.Name)
		}
	}
}
