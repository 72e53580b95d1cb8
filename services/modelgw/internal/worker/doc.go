// Package worker answers the requests of a provider's queue: it reads a
// model.call, claims the attempt, lets an adapter generate the turn, sends the
// deltas and stores the one result. It knows no provider.
package worker
