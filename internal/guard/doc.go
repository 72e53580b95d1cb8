// Package guard tries the mesh on a NATS server with the accounts and permissions
// that `crumb init --auth` makes: every service with the credentials of its role
// does all its work without one refusal, and no role does another's (forgeries).
package guard
