// Package orchestrator is the service that drives runs: it decides what happens
// next (internal/core), makes each decision durable and delivers it
// (internal/worker), and answers for runs, agents and tools (internal/endpoint).
//
// Invariants: no run is held in memory; every decision is one compare-and-set of
// the run's record with its Outbox inside; crumbs are stored once and in order;
// every pending thing has a deadline, so every run ends. Any number of replicas
// may run; each message goes to one of them, and any of them can go on with any
// run.
//
// Non-goals: it starts no user program, calls no model and waits for no reply
// inside a decision.
package orchestrator
