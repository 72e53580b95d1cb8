package authority

import (
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

// cliFolder holds a context of the `nats` command line for each role that works with
// it: `nats --context DIR/nats-cli/operator.json stream report`.
const cliFolder = "nats-cli"

// cliContext is a context of `nats`, as far as it is needed; paths are absolute.
type cliContext struct {
	Description string `json:"description"`
	URL         string `json:"url"`
	NKey        string `json:"nkey"`
	CA          string `json:"ca,omitempty"`
	Cert        string `json:"cert,omitempty"`
	Key         string `json:"key,omitempty"`
	InboxPrefix string `json:"inbox_prefix,omitempty"`
	APIPrefix   string `json:"jetstream_api_prefix,omitempty"`
}

// CLI names the role's context of `nats`, "" for a role that has none.
func (a *Authority) CLI(r access.Role) string {
	if !r.System && !slices.Contains([]string{access.RoleProvisioner, access.RoleBackup, access.RoleOperator}, r.Name) {
		return ""
	}
	return a.path(cliFolder, r.Name+".json")
}

// contexts writes those of all roles that have one.
func (a *Authority) contexts(files map[string]string) error {
	root, err := filepath.Abs(a.Dir)
	if err != nil {
		return fault.From(err)
	}
	for _, r := range a.Mesh().Roles() {
		if a.CLI(r) == "" {
			continue
		}
		c := cliContext{Description: "crumbmesh, role " + r.Name, URL: a.plan.Server, NKey: filepath.Join(root, "keys", r.Name+".nk")}
		if a.tls() {
			c.CA, c.Cert, c.Key = filepath.Join(root, "tls", "ca.pem"), filepath.Join(root, "tls", r.Name+".pem"), filepath.Join(root, "tls", r.Name+".key")
		}
		if !r.System {
			c.InboxPrefix = r.InboxPrefix()
		}
		if r.Restricted() {
			c.APIPrefix = access.APIPrefix
		}
		text, err := json.MarshalIndent(c, "", "  ")
		if err != nil {
			return fault.From(err)
		}
		files[filepath.Join(cliFolder, r.Name+".json")] = string(text) + "\n"
	}
	return nil
}
