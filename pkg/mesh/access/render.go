package access

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// responseExpiry is how long an answer to a request may take.
const responseExpiry = "1m"

// Users are the public NKEYs of each role: one, or two while it is rotated.
type Users map[string][]string

// Accounts renders the accounts, users, exports and imports of a mesh in the
// language of nats-server's configuration; the main configuration includes it. It
// is the same for the same mesh and users.
func (m Mesh) Accounts(users Users) string {
	roles := m.Roles()
	var b strings.Builder
	b.WriteString("# Made by `crumb init --auth` from the table of roles; make it again instead of changing it.\n")
	b.WriteString("accounts {\n")
	byAccount := map[string][]Role{}
	var order []string
	for _, r := range roles {
		if _, ok := byAccount[r.Account]; !ok {
			order = append(order, r.Account)
		}
		byAccount[r.Account] = append(byAccount[r.Account], r)
	}
	exports := exported(roles)
	for _, account := range order {
		fmt.Fprintf(&b, "  %s {\n", account)
		if account == AccountCore {
			b.WriteString("    jetstream: enabled\n")
		}
		writeUsers(&b, byAccount[account], users)
		writeExports(&b, exports[account])
		for _, r := range byAccount[account] {
			if r.Restricted() {
				writeImports(&b, r)
			}
		}
		b.WriteString("  }\n")
	}
	fmt.Fprintf(&b, "}\nsystem_account: %s\n", AccountSystem)
	return b.String()
}

func writeUsers(b *strings.Builder, roles []Role, users Users) {
	b.WriteString("    users: [\n")
	for _, r := range roles {
		for _, key := range users[r.Name] {
			fmt.Fprintf(b, "      # %s\n      { nkey: %s", r.Name, key)
			if !r.System {
				b.WriteString(", permissions: {\n        publish: {allow: [")
				writeList(b, r.Publishes())
				b.WriteString("]}\n        subscribe: {allow: [")
				writeList(b, r.Subscribes())
				b.WriteString("]}\n")
				if len(r.Serves)+len(r.Within) > 0 {
					fmt.Fprintf(b, "        allow_responses: {max: 1, expires: %q}\n", responseExpiry)
				}
				b.WriteString("      }")
			}
			b.WriteString(" }\n")
		}
	}
	b.WriteString("    ]\n")
}

func writeList(b *strings.Builder, subjects []string) {
	for _, s := range subjects {
		fmt.Fprintf(b, "\n          %q", s)
	}
}

// Local is a subject as the role's own account knows it.
func (r Role) Local(subject string) string {
	if rest, ok := strings.CutPrefix(subject, api); ok && r.Restricted() {
		return APIPrefix + "." + rest
	}
	return subject
}

// Publishes lists what the role's user may publish to.
func (r Role) Publishes() []string {
	var out []string
	for _, u := range r.Uses {
		out = append(out, r.Local(u.Subject))
	}
	out = append(out, r.Within...)
	slices.Sort(out)
	return slices.Compact(out)
}

// Subscribes lists what the role's user may listen to.
func (r Role) Subscribes() []string {
	out := slices.Concat([]string{r.InboxPrefix() + ".>"}, r.Hears, r.Within)
	if len(r.Serves) > 0 {
		out = append(append(out, r.Serves...), "$SRV.>") // found by `nats micro ls` of its own account
	}
	slices.Sort(out)
	return out
}

// export is a subject of one account for others.
type export struct {
	kind    string // service or stream
	subject string
	many    bool
	to      []string
}

// exported collects what each account exports from what the others use.
func exported(roles []Role) map[string][]export {
	found := map[string]map[string]export{}
	add := func(account string, e export, importer string) {
		if found[account] == nil {
			found[account] = map[string]export{}
		}
		key := e.kind + " " + e.subject
		if have, ok := found[account][key]; ok {
			e.to = have.to
		}
		e.to = append(e.to, importer)
		found[account][key] = e
	}
	for _, r := range roles {
		if !r.Restricted() {
			continue
		}
		for _, u := range r.Uses {
			add(cmp.Or(u.From, AccountCore), export{kind: "service", subject: u.Subject, many: u.Many}, r.Account)
		}
		for _, s := range r.Hears {
			add(AccountCore, export{kind: "stream", subject: s}, r.Account)
		}
	}
	out := map[string][]export{}
	for account, all := range found {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			out[account] = append(out[account], all[key])
		}
	}
	return out
}

func writeExports(b *strings.Builder, exports []export) {
	if len(exports) == 0 {
		return
	}
	b.WriteString("    exports: [\n")
	for _, e := range exports {
		many := ""
		if e.many {
			many = ", response_type: stream"
		}
		fmt.Fprintf(b, "      { %s: %q%s, accounts: [%s] }\n", e.kind, e.subject, many, strings.Join(slices.Compact(slices.Sorted(slices.Values(e.to))), ", "))
	}
	b.WriteString("    ]\n")
}

func writeImports(b *strings.Builder, r Role) {
	b.WriteString("    imports: [\n")
	for _, u := range sortedUses(r.Uses) {
		local := ""
		if l := r.Local(u.Subject); l != u.Subject {
			local = fmt.Sprintf(", to: %q", l)
		}
		fmt.Fprintf(b, "      { service: { account: %s, subject: %q }%s }\n", cmp.Or(u.From, AccountCore), u.Subject, local)
	}
	for _, s := range r.Hears {
		fmt.Fprintf(b, "      { stream: { account: %s, subject: %q } }\n", AccountCore, s)
	}
	b.WriteString("    ]\n")
}

func sortedUses(uses []Use) []Use {
	out := slices.Clone(uses)
	slices.SortFunc(out, func(a, b Use) int { return cmp.Compare(a.Subject, b.Subject) })
	return slices.CompactFunc(out, func(a, b Use) bool { return a.Subject == b.Subject })
}
