package authority

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

// settings writes a file for --config of each role; paths start at its folder.
func (a *Authority) settings(files map[string]string) error {
	key, err := decision.LoadSeed(a.path("keys", "approvals.key"))
	if err != nil {
		return err
	}
	verify := []string{key.Public()}
	old, err := a.old(ApprovalsKey)
	if err != nil {
		return err
	}
	var trust []string
	if old != "" && old != key.Public() {
		verify, trust = append(verify, old), []string{old}
	}
	for _, r := range a.Mesh().Roles() {
		var b strings.Builder
		fmt.Fprintf(&b, "# Role %s: %s. Made by `crumb init --auth`; settings of your own go into a copy, or into flags.\n", r.Name, r.For)
		fmt.Fprintf(&b, "server: %q\nnkey: keys/%s.nk\n", a.plan.Server, r.Name)
		if !r.System {
			fmt.Fprintf(&b, "inboxPrefix: %s\n", r.InboxPrefix())
		}
		if r.Restricted() {
			fmt.Fprintf(&b, "jsApiPrefix: %s\n", access.APIPrefix)
		}
		if a.tls() {
			fmt.Fprintf(&b, "tlsCa: tls/ca.pem\ntlsCert: tls/%s.pem\ntlsKey: tls/%s.key\n", r.Name, r.Name)
		}
		group, tools := strings.CutPrefix(r.Name, access.ToolsRole(""))
		switch {
		case tools:
			fmt.Fprintf(&b, "group: %s\n%s", group, list("approvalsPubkey", verify))
		case r.Name == access.RoleOrchestrator:
			b.WriteString(list("approvalsPubkey", verify))
		case r.Name == access.RoleApprovals:
			b.WriteString("keyFile: keys/approvals.key\n" + list("trust", trust))
		case r.Name == access.RoleModels:
			b.WriteString(list("provider", a.plan.Providers))
		case r.Name == access.RoleProvisioner:
			b.WriteString(list("group", a.plan.Groups) + list("provider", a.plan.Providers))
		}
		files[r.Name+".yaml"] = b.String()
	}
	return nil
}

func list(key string, values []string) string {
	if len(values) == 0 {
		return ""
	}
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = fmt.Sprintf("%q", v)
	}
	return key + ": [" + strings.Join(quoted, ", ") + "]\n"
}

// server writes the main configuration and, with TLS, that of the certificate.
func (a *Authority) server(files map[string]string) error {
	tls := ""
	if a.tls() {
		folder, err := filepath.Abs(a.path("tls"))
		if err != nil {
			return fault.From(err)
		}
		files[filepath.Join("nats", "tls.conf")] = fmt.Sprintf("tls {\n  cert_file: %q\n  key_file: %q\n  ca_file: %q\n  verify: true\n}\n",
			filepath.Join(folder, "server.pem"), filepath.Join(folder, "server.key"), filepath.Join(folder, "ca.pem"))
		tls = "include tls.conf\n"
	}
	files[filepath.Join("nats", "nats-server.conf")] = `# A main configuration to begin with: one server. For a cluster give each server a
# name, a store and a cluster block; accounts.conf is the same on all of them.
server_name: nats-1
listen: 0.0.0.0:4222
http: 127.0.0.1:8222
jetstream { store_dir: "./jetstream", max_file_store: 100GB, max_memory_store: 1GB }
include accounts.conf
` + tls
	return nil
}
