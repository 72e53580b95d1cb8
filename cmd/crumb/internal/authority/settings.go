package authority

import (
	"fmt"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

// settings writes a file for --config of each role; paths start at its folder. The
// system account and backups are not for crumb, but for nats.
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
		if a.Settings(r) == "" {
			continue
		}
		var b strings.Builder
		fmt.Fprintf(&b, "# Role %s: %s. Made by `crumb init --auth`; settings of your own go into a copy, or into flags.\n", r.Name, r.For)
		fmt.Fprintf(&b, "server: %q\nnkey: keys/%s.nk\ninboxPrefix: %s\n", a.plan.Server, r.Name, r.InboxPrefix())
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
			if len(trust) > 0 {
				fmt.Fprintf(&b, "replaces: %q\n", old)
			}
		case r.Name == access.RoleModels:
			b.WriteString(list("provider", a.plan.Providers))
		case r.Name == access.RoleProvisioner:
			b.WriteString(list("group", a.plan.Groups) + list("provider", a.plan.Providers))
		}
		files[r.Name+".yaml"] = b.String()
	}
	return nil
}

// Settings names the role's file for --config, "" for a role that has none: those of
// `nats` only.
func (a *Authority) Settings(r access.Role) string {
	if r.System || r.Name == access.RoleBackup {
		return ""
	}
	return a.path(r.Name + ".yaml")
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
