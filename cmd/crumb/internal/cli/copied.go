package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

// What a command prints to be copied must reach the same mesh from the same shell, by
// a role that may do it: the connection's flags of this command line are repeated,
// and what another role does names that role's settings.

// connectionGroup is the group of the flags that say how the mesh is reached.
const connectionGroup = "connection"

// ofRole are the connection flags that belong to one role, with the variables that
// would go before the settings of another.
var ofRole = map[string]string{configFlag: "", "creds": "NATS_CREDS", "nkey": "NATS_NKEY", "tls-cert": "CRUMB_TLS_CERT", "tls-key": "CRUMB_TLS_KEY",
	"js-api-prefix": "CRUMB_JS_API_PREFIX", "inbox-prefix": "CRUMB_INBOX_PREFIX"}

// flagWord is a flag as it stood on the command line.
type flagWord struct{ name, value string }

// connectionFlags are those of the command line: the environment and files say the
// same to the next command.
func connectionFlags(parsed *kong.Context) (out []flagWord) {
	for _, p := range parsed.Path {
		if p.Flag == nil || p.Resolved || p.Flag.Group == nil || p.Flag.Group.Key != connectionGroup {
			continue
		}
		value, ok := parsed.FlagValue(p.Flag).(string)
		if !ok {
			continue
		}
		out = slices.DeleteFunc(out, func(f flagWord) bool { return f.name == p.Flag.Name }) // the last counts
		out = append(out, flagWord{p.Flag.Name, value})
	}
	return out
}

// self is how this mesh is called from the same shell, as who this command is.
func (i *invocation) self() string {
	words := "crumb"
	for _, f := range i.connection {
		words += " --" + f.name + " " + shellWord(f.value)
	}
	return words
}

// role is who this command is to NATS, "" where that does not show: on a server
// without accounts, or with accounts of somebody's own.
func (i *invocation) role() string {
	name, _ := strings.CutPrefix(i.globals.InboxPrefix, access.Role{}.InboxPrefix())
	if name == i.globals.InboxPrefix {
		return ""
	}
	return name
}

// mayAnswer reports whether this command may answer questions, as far as is known.
func (i *invocation) mayAnswer() bool {
	return !i.refused && (i.role() == "" || i.role() == access.RoleApprover)
}

// as is how this mesh is called by one of the roles; the first, when this command is
// none of them.
func (i *invocation) as(roles ...string) string {
	mine := i.role()
	other := mine != "" && !slices.Contains(roles, mine) || i.refused && roles[0] == access.RoleApprover
	if len(roles) == 0 || !other {
		return i.self()
	}
	words := ""
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for _, variable := range ofRole {
			if variable == "" {
				continue
			}
			if _, set := i.std.Env(variable); set && !yield(variable) {
				return
			}
		}
	}) {
		words += " -u " + name // it would go before the file
	}
	if words != "" {
		words = "env" + words + " "
	}
	words += "crumb"
	for _, f := range i.connection {
		if _, its := ofRole[f.name]; !its {
			words += " --" + f.name + " " + shellWord(f.value)
		}
	}
	return words + " --config " + shellWord(i.settingsOf(roles[0]))
}

// settingsOf is the settings file of another role: beside this command's own if it
// is there, else in the folder of `crumb init --auth DIR`, wherever that is.
func (i *invocation) settingsOf(role string) string {
	if i.globals.Config != "" {
		beside := filepath.Join(filepath.Dir(i.globals.Config), role+".yaml")
		if _, err := os.Stat(beside); err == nil {
			return beside
		}
	}
	return "DIR/" + role + ".yaml"
}

// copied matches commands on the mesh in a text; a command ends at a quote or a comma.
var copied = regexp.MustCompile("\\bcrumb ((?:agents|approvals|dead|doctor|explain|init|modelgw|orchestrator|run|runs|toolexec|tools|watch)\\b[^`,;]*)")

// calls makes the commands in a text reach this mesh.
func (i *invocation) calls(text string) string {
	return copied.ReplaceAllStringFunc(text, func(command string) string {
		rest := strings.TrimPrefix(command, "crumb ")
		if strings.Contains(rest, "--help") {
			return command
		}
		return i.as(rolesOf(strings.Fields(rest))...) + " " + rest
	})
}

// rolesOf are the roles that may give a command.
func rolesOf(words []string) []string {
	second := ""
	if len(words) > 1 {
		second = words[1]
	}
	switch words[0] {
	case "approvals":
		switch second {
		case "approve", "reject", "answer":
			return []string{access.RoleApprover}
		case "list", "show":
			return []string{access.RoleClient, access.RoleApprover, access.RoleOperator}
		}
		return []string{access.RoleApprovals}
	case "agents", "tools":
		if second != "apply" {
			return []string{access.RoleOperator, access.RoleClient, access.RoleApprover}
		}
		return []string{access.RoleOperator}
	case "dead", "doctor":
		return []string{access.RoleOperator}
	case "init":
		return []string{access.RoleProvisioner}
	case "orchestrator":
		return []string{access.RoleOrchestrator}
	case "modelgw":
		return []string{access.RoleModels}
	case "toolexec":
		if n := slices.Index(words, "--group"); n >= 0 && n+1 < len(words) {
			return []string{access.ToolsRole(words[n+1])}
		}
		return []string{access.ToolsRole("GROUP")}
	case "run":
		return []string{access.RoleClient}
	case "runs":
		if second == "cancel" {
			return []string{access.RoleClient, access.RoleOperator}
		}
	}
	return []string{access.RoleClient, access.RoleApprover, access.RoleOperator}
}

// plainWord matches what a shell takes as one word as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellWord quotes a word for a shell.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
