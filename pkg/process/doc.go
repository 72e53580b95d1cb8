// Package process runs one service as a process of its own: it connects, waits
// for NATS and the topology, serves the probes, and drains.
//
//	starting ──ready──▶ serving ──first signal, or its parent is gone──▶ draining ──▶ exit 0
//	    └── NATS or the topology missing for longer than Wait ──▶ exit 1
//
// /readyz is red while starting and draining, and whenever the service says why
// it does not serve: its consume loop heard nothing, NATS refused it something, a
// stream is gone. /livez is green while the process answers at all: nothing that a
// restart would not mend turns it red.
package process
