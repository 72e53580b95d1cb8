// Package access says who may do what on NATS, once: the table of roles, from
// which the configuration of nats-server is rendered and against which the
// forgery suite is run (docs/security.md).
//
// Permissions inside an account do not stop forgery: the server does not check
// the reply subject of a request, so whoever may make any request can have its
// answer, whose bytes he may have chosen, stored where he may not write. Hence
// every role but the core (orchestrator, provisioner, backup) has an account of its own
// and imports from the core account the subjects that it needs, one by one. What
// an answer reaches by a forged reply subject is then its asker's own account.
//
// A user is allowed to publish what his account imports and nothing else, although
// nothing else would reach anybody: so each attempt is a permissions violation,
// which the server logs with the user's key. Only an answer that is sent to a
// forged reply subject leaves no trace: it reaches nobody, and NATS tells nobody.
//
// Non-goals: no NATS types; no connection; no limits of accounts.
package access
