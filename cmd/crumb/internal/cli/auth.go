package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/authority"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// authFlags make keys and configuration instead of a topology.
type authFlags struct {
	Auth    string   `help:"Write NATS accounts, keys and the settings of every role into this folder instead; keys that are there stay. Needs no connection." type:"path" env:"CRUMB_AUTH" placeholder:"DIR"`
	TLS     bool     `name:"tls" help:"With --auth: certificates too, and TLS with client certificates."`
	TLSHost []string `name:"tls-host" help:"With --tls: names and addresses of the NATS servers (default localhost, 127.0.0.1)." placeholder:"HOST"`
	Rotate  string   `help:"With --auth: a new key for this role, or for approvals-key, beside the old one." placeholder:"ROLE"`
	Finish  bool     `help:"With --rotate: the old key is not believed any more."`
}

// authorized is what `crumb init --auth --json` prints.
type authorized struct {
	Dir   string   `json:"dir"`
	Roles []string `json:"roles"`
}

// run writes the folder for the queues of a topology.
func (f authFlags) run(i *invocation, t mesh.Topology) error {
	if f.Finish && f.Rotate == "" {
		return fault.New(fault.InvalidConfig, "--finish goes with --rotate ROLE")
	}
	r := authority.Request{Groups: slices.Sorted(maps.Keys(t.Groups)), Providers: slices.Sorted(maps.Keys(t.Providers)), Hosts: f.TLSHost, Server: i.globals.Server}
	if f.TLS && len(r.Hosts) == 0 {
		r.Hosts = []string{"localhost", "127.0.0.1"}
	}
	a, err := authority.Open(f.Auth, r)
	if err != nil {
		return err
	}
	if err := a.Write(); err != nil { // first: a role to rotate has a key
		return err
	}
	if err := f.rotate(a); err != nil {
		return err
	}
	out := authorized{Dir: f.Auth}
	for _, r := range a.Mesh().Roles() {
		out.Roles = append(out.Roles, r.Name)
	}
	if i.globals.JSON {
		return i.document(out)
	}
	i.say("servers   %s/nats: all that a NATS server gets; nats-server.conf is written once, then it is yours", f.Auth)
	i.say("accounts  %s/nats/accounts.conf: bring it to every server, then reload it (SIGHUP)", f.Auth)
	if a.TLS() && !a.IncludesTLS() {
		i.say("tls       %s/nats/nats-server.conf does not include tls.conf: add the line `include tls.conf` and restart the servers", f.Auth)
	}
	for _, r := range a.Mesh().Roles() {
		var ways []string
		if a.Settings(r) != "" {
			ways = append(ways, "crumb … --config "+a.Settings(r))
		}
		if a.CLI(r) != "" {
			ways = append(ways, "nats --context "+a.CLI(r)+" …")
		}
		i.say("role      %s: %s", r.Name, strings.Join(ways, "; "))
	}
	for n, step := range f.next() {
		i.say("next %d    %s", n+1, step)
	}
	return nil
}

// next are the steps of a rotation that are left to do.
func (f authFlags) next() []string {
	reload := "reload every NATS server (kill -HUP PID) with the new " + f.Auth + "/nats/accounts.conf, and look for \"Reloaded server configuration\" in its log: a reload that failed is said there only"
	finish := "crumb init --auth " + f.Auth + " --rotate " + f.Rotate + " --finish"
	switch {
	case f.Rotate == "":
		return nil
	case f.Rotate == authority.ApprovalsKey && f.Finish:
		return []string{"restart the orchestrators, the workers and the approvals service with their new settings"}
	case f.Rotate == authority.ApprovalsKey:
		return []string{"restart the orchestrators and the workers with their new settings: they believe both keys", "then restart the approvals service with its new settings and key; those say whose place the new key takes",
			"when no question that was answered before is open: " + finish}
	case f.Finish:
		return []string{reload + "; the old key is believed until then"}
	}
	return []string{reload, "give the processes the new " + f.Auth + "/keys/" + f.Rotate + ".nk and restart them one by one", finish}
}

func (f authFlags) rotate(a *authority.Authority) error {
	if f.Rotate == "" {
		return nil
	}
	change := a.Rotate
	if f.Finish {
		change = a.Finish
	}
	if err := change(f.Rotate); err != nil {
		return err
	}
	return a.Write()
}
