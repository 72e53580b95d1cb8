package access_test

import (
	"os"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

const chartValues = "../../../deploy/k8s/crumbmesh/ci/full-values.yaml"

// chartAccess is `access` of a part of the chart.
type chartAccess struct {
	NKeySecret  string `yaml:"nkeySecret"`
	CertSecret  string `yaml:"certSecret"`
	JSAPIPrefix string `yaml:"jsApiPrefix"`
	InboxPrefix string `yaml:"inboxPrefix"`
}

// What the chart's full example tells each part is what its role may use: another
// prefix is refused by NATS, or never answered.
func TestChartValues_AreOfTheRoles(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(chartValues)
	if err != nil {
		t.Fatal(err)
	}
	type part struct {
		Name   string
		Access chartAccess
	}
	var values struct {
		Init, Orchestrator, Modelgw, Approvals part
		Groups, Providers                      []part
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	parts := map[string]chartAccess{
		access.RoleProvisioner: values.Init.Access, access.RoleOrchestrator: values.Orchestrator.Access,
		access.RoleModels: values.Modelgw.Access, access.RoleApprovals: values.Approvals.Access,
	}
	var m access.Mesh
	for _, p := range values.Providers {
		m.Providers = append(m.Providers, p.Name)
	}
	for _, g := range values.Groups {
		m.Groups = append(m.Groups, g.Name)
		parts[access.ToolsRole(g.Name)] = g.Access
	}
	if len(m.Groups) == 0 || len(m.Providers) == 0 {
		t.Fatal("the example has no groups or no providers")
	}
	secrets := map[string]string{}
	for name, got := range parts {
		r, err := m.Role(name)
		if err != nil {
			t.Fatal(err)
		}
		prefix := ""
		if r.Restricted() {
			prefix = access.APIPrefix
		}
		if got.InboxPrefix != r.InboxPrefix() || got.JSAPIPrefix != prefix {
			t.Errorf("%s: inboxPrefix %q and jsApiPrefix %q, want %q and %q", name, got.InboxPrefix, got.JSAPIPrefix, r.InboxPrefix(), prefix)
		}
		for _, secret := range []string{got.NKeySecret, got.CertSecret} {
			if other := secrets[secret]; secret == "" || other != "" {
				t.Errorf("%s: secret %q is of %q too; each role has its own", name, secret, other)
			}
			secrets[secret] = name
		}
	}
}
