package mesh

import (
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Access is who a process is to NATS, and under which names its account sees what
// it may use. The zero value is nobody, on a server that asks for nothing.
type Access struct {
	Creds string // credentials file (JWT and seed)
	NKey  string // NKEY seed file

	CA   string // PEM file of the authorities that sign the server's certificate; the system's when empty
	Cert string // PEM file of this process's own certificate, with Key
	Key  string // PEM file of the key of Cert

	// APIPrefix is where an account that imports JetStream finds its API; $JS.API
	// when empty.
	APIPrefix string
	// InboxPrefix is where answers to this role come; _INBOX when empty.
	InboxPrefix string
}

// options are those of the client. They fail with INVALID_CONFIG naming the file
// that cannot be used.
func (a Access) options() ([]nats.Option, error) {
	var opts []nats.Option
	if a.Creds != "" && a.NKey != "" {
		return nil, fault.New(fault.InvalidConfig, "creds %s and nkey %s: expected one of them", a.Creds, a.NKey)
	}
	if a.Creds != "" {
		opts = append(opts, nats.UserCredentials(a.Creds))
	}
	if a.NKey != "" {
		key, err := nats.NkeyOptionFromSeed(a.NKey)
		if err != nil {
			return nil, fault.New(fault.InvalidConfig, "nkey file %s: expected an NKEY seed: %v", a.NKey, err)
		}
		opts = append(opts, key)
	}
	if a.CA != "" {
		opts = append(opts, nats.RootCAs(a.CA))
	}
	if (a.Cert == "") != (a.Key == "") {
		return nil, fault.New(fault.InvalidConfig, "a client certificate: expected both tls-cert and tls-key, got %q and %q", a.Cert, a.Key)
	}
	if a.Cert != "" {
		opts = append(opts, nats.ClientCert(a.Cert, a.Key))
	}
	if a.InboxPrefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(a.InboxPrefix))
	}
	return opts, nil
}

// tlsHint says what is missing when a connection failed for its certificates, ""
// when it failed for something else.
func tlsHint(err error) string {
	switch {
	case err == nil:
		return ""
	case strings.Contains(err.Error(), "certificate signed by unknown authority"):
		return "name the file of the authority that signed the server's certificate with --tls-ca"
	case strings.Contains(err.Error(), "certificate required"), strings.Contains(err.Error(), "after TLS handshake"): // it may hang up before it says why
		return "the server wants a certificate of its own authority: name this role's with --tls-cert and --tls-key"
	case strings.Contains(err.Error(), "secure connection required"):
		return "the server speaks TLS only: name its authority with --tls-ca"
	}
	return ""
}

// unknown says what to do when the server does not let this process in.
func (a Access) unknown() string {
	if a.NKey == "" && a.Creds == "" {
		return "it has accounts: name the settings of a role with --config DIR/ROLE.yaml, or its key with --nkey (NATS_NKEY), --inbox-prefix and --js-api-prefix (docs/security.md)"
	}
	return "it does not know this key: a new or rotated one is believed once every server was reloaded with the new accounts.conf (docs/security.md)"
}
