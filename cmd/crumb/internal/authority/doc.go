// Package authority keeps the keys of a mesh in a folder and writes from them what
// its servers and processes are configured with: what `crumb init --auth` does. It
// needs no connection.
//
//	nats/accounts.conf     accounts, users, exports and imports (pkg/mesh/access)
//	nats/nats-server.conf  a main configuration that includes them
//	nats/tls.conf          with TLS: the server's certificate
//	keys/<role>.nk         seeds, mode 0600
//	keys/<role>.old.pub    while a role is rotated: the key that goes
//	keys/approvals.key     what decisions are signed with, mode 0600
//	tls/…                  with TLS: an authority, a certificate of the server and of each role
//	<role>.yaml            for --config of the role's processes
//	mesh.yaml              the groups and providers it is made for
//
// What is there stays: keys are made once. Files are replaced as a whole.
package authority
