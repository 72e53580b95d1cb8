// Package delivery models how the orchestrator's replicas handle the events of
// one run, line by line:
//
//  1. read the run's record
//  2. deliver its Outbox if this replica has not seen it delivered (helping),
//     then decide; a decision that changes nothing is made again on a read
//     through the leader
//  3. write the new State with its Outbox by compare-and-set
//  4. deliver the Outbox: the command, then the crumbs, each on top of its
//     predecessor
//  5. acknowledge the event
//
// Every decision has one command and two crumbs in its Outbox: enough to be
// delivered halfway. Revision n decides command n and crumbs 2n-1 and 2n.
package delivery
