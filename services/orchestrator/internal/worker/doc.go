// Package worker drives the run machine over NATS: the loop of
// docs/ARCHITECTURE.md.
//
// For one message: (1) read the run's record, or take it from this process's
// cache; (2) deliver its Outbox if it was not seen delivered here (helping), then
// Decide; (3) write the new State with its Outbox inside by compare-and-set;
// (4) deliver the Outbox: commands, then crumbs one by one, fenced; (5) settle
// the message. A crash at any line is repaired by redelivery or by the run's
// next event. A decision that changes nothing is made again on a read through
// the leader before the message is settled.
package worker
