package authority

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Files of the folder of the NATS servers, which is all that a server gets.
const (
	serverFile = "nats-server.conf"
	tlsFile    = "tls.conf"

	// noTLS is tls.conf of a mesh without TLS: the main configuration includes it, so
	// that TLS can be added without changing that.
	noTLS = "# No TLS: `crumb init --auth DIR --tls` writes it.\n"

	natsPort = "4222" // of a URL without a port
)

// server writes what the servers are configured with beside accounts.conf. The main
// configuration and tls.conf are the operator's own once they are there: an address,
// a store or a cluster block that he wrote is never taken back.
func (a *Authority) server(files map[string]string) error {
	folder, err := filepath.Abs(a.path("nats"))
	if err != nil {
		return fault.From(err)
	}
	text := noTLS
	if a.tls() {
		for name, mode := range map[string]fs.FileMode{"server.pem": publicMode, "server.key": secretMode, "ca.pem": publicMode} {
			data, err := os.ReadFile(a.path("tls", name))
			if err == nil {
				err = replace(a.path("nats", name), data, mode)
			}
			if err != nil {
				return unusable(a.Dir, err)
			}
		}
		text = fmt.Sprintf("# Written once, then yours. nats-server takes relative paths from where it is started.\ntls {\n  cert_file: %q\n  key_file: %q\n  ca_file: %q\n  verify: true\n}\n",
			filepath.Join(folder, "server.pem"), filepath.Join(folder, "server.key"), filepath.Join(folder, "ca.pem"))
	}
	have, err := a.there(tlsFile)
	if err != nil {
		return err
	}
	if have == "" || have == noTLS {
		files[filepath.Join("nats", tlsFile)] = text
	}
	if have, err = a.there(serverFile); err != nil || have != "" {
		return err
	}
	files[filepath.Join("nats", serverFile)] = fmt.Sprintf(`# A main configuration to begin with: one server. It is written once, then it is
# yours: it is not written again. For a cluster give each server a name, a store and a cluster
# block; accounts.conf is the same on all of them.
server_name: nats-1
listen: %q
http: 127.0.0.1:8222
jetstream {
  store_dir: %q
  max_file_store: 100GB
  max_memory_store: 1GB
  sync_interval: always # an acknowledged message is on the disk: docs/operations.md
}
include accounts.conf
include tls.conf
`, listen(a.plan.Server), filepath.Join(folder, "jetstream"))
	return nil
}

// there is a file of the servers' folder, "" when it is not there.
func (a *Authority) there(name string) (string, error) {
	text, err := os.ReadFile(a.path("nats", name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", unusable(a.Dir, err)
	}
	return string(text), nil
}

// IncludesTLS reports whether the main configuration of the folder includes tls.conf;
// one that somebody wrote may not.
func (a *Authority) IncludesTLS() bool {
	text, err := a.there(serverFile)
	return err == nil && strings.Contains(text, tlsFile)
}

// TLS reports whether the mesh has certificates.
func (a *Authority) TLS() bool { return a.tls() }

// listen is the address of a server that is reached under a URL, the first of several:
// on the loopback only when that is what it names.
func listen(server string) string {
	first, _, _ := strings.Cut(server, ",")
	if !strings.Contains(first, "://") {
		first = "nats://" + first
	}
	host, port := "0.0.0.0", natsPort
	if u, err := url.Parse(strings.TrimSpace(first)); err == nil {
		if p := u.Port(); p != "" {
			port = p
		}
		switch ip := net.ParseIP(u.Hostname()); {
		case u.Hostname() == "localhost":
			host = "127.0.0.1"
		case ip != nil && ip.IsLoopback():
			host = ip.String()
		}
	}
	return net.JoinHostPort(host, port)
}
