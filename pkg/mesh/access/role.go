package access

import (
	"slices"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Accounts of a mesh; a group of tool workers has one of its own (ToolsAccount).
const (
	AccountCore      = "CORE"
	AccountModels    = "MODELS"
	AccountApprovals = "APPROVALS"
	AccountClients   = "CLIENTS"
	AccountApprovers = "APPROVERS"
	AccountOperators = "OPERATORS"
	AccountSystem    = "SYS"
)

// ToolsAccount is the account of a group's workers.
func ToolsAccount(group string) string { return "TOOLS_" + group }

// Roles; the workers of a group have one of their own (ToolsRole).
const (
	RoleProvisioner  = "provisioner"
	RoleBackup       = "backup"
	RoleOrchestrator = "orchestrator"
	RoleModels       = "modelgw"
	RoleApprovals    = "approvals"
	RoleClient       = "client"
	RoleApprover     = "approver"
	RoleOperator     = "operator"
	RoleSystem       = "system"
)

// ToolsRole is the role of a group's workers.
func ToolsRole(group string) string { return "toolexec-" + group }

// APIPrefix is where accounts that import JetStream's API find it: their own
// $JS.API is answered by the server itself.
const APIPrefix = "MESHJS"

// Role is who a process is to NATS and what that lets it do.
type Role struct {
	Name    string
	Account string
	For     string // who has it, in a few words
	Uses    []Use  // what it may publish or ask
	Hears   []string
	Serves  []string // requests it answers
	Within  []string // requests it makes and answers inside its own account, of nobody else's business
	System  bool     // the server's own account: its events and state
}

// Use is a subject that a role may publish to. In an account of its own it is
// imported from the account that has it, else it is that account's.
type Use struct {
	Subject string
	From    string // the account that answers; AccountCore when empty
	Many    bool   // the answer is several messages
}

// InboxPrefix is where answers to the role come. Another role's cannot be heard.
func (r Role) InboxPrefix() string { return "_INBOX." + r.Name }

// Restricted reports whether the role's account imports what it needs.
func (r Role) Restricted() bool { return r.Account != AccountCore && !r.System }

// Mesh is what the roles are made for.
type Mesh struct {
	Groups    []string // of tool workers; each is trusted with its own calls only
	Providers []string // of models
}

// Check returns INVALID_NAME for a name that is none and INVALID_CONFIG for one
// that is there twice.
func (m Mesh) Check() error {
	for kind, names := range map[string][]string{"group": m.Groups, "provider instance": m.Providers} {
		for i, name := range names {
			if err := crumbs.CheckName(kind, name); err != nil {
				return err
			}
			if slices.Contains(names[:i], name) {
				return fault.New(fault.InvalidConfig, "%s %s is named twice; name each once", kind, name)
			}
		}
	}
	return nil
}

// Roles is the table: the roles of a mesh, those of groups in the order given.
func (m Mesh) Roles() []Role {
	out := []Role{provisioner(), backup(), orchestrator(), models(m.Providers), approvals()}
	for _, g := range m.Groups {
		out = append(out, tools(g))
	}
	return append(out, client(), approver(), operator(), system())
}

// Role returns a role by its name. It fails with INVALID_CONFIG naming those there are.
func (m Mesh) Role(name string) (Role, error) {
	roles := m.Roles()
	i := slices.IndexFunc(roles, func(r Role) bool { return r.Name == name })
	if i < 0 {
		var names []string
		for _, r := range roles {
			names = append(names, r.Name)
		}
		return Role{}, fault.New(fault.InvalidConfig, "role %q: expected one of %v", name, names)
	}
	return roles[i], nil
}
