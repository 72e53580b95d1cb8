// Package authority keeps the keys of a mesh in a folder and writes from them what
// its servers and processes are configured with: what `crumb init --auth` does. It
// needs no connection.
//
//	nats/                  all that a NATS server gets, and nothing else of the folder
//	nats/accounts.conf     accounts, users, exports and imports (pkg/mesh/access)
//	nats/nats-server.conf  a main configuration that includes them, written once
//	nats/tls.conf          TLS of the server, or a remark that there is none; written once
//	nats/server.pem, …     with TLS: copies of the server's certificate, its key and ca.pem
//	keys/<role>.nk         seeds, mode 0600
//	keys/<role>.old.pub    while a role is rotated: the key that goes
//	keys/approvals.key     what decisions are signed with, mode 0600
//	tls/…                  with TLS: an authority, a certificate of the server and of each role
//	<role>.yaml            for --config of the role's processes
//	nats-cli/<role>.json   for --context of `nats`
//	mesh.yaml              the groups and providers it is made for
//
// What is there stays: keys and the servers' own configuration are made once. What
// follows from them (accounts.conf, <role>.yaml, nats-cli/) is made again each time; files are
// replaced as a whole.
package authority
