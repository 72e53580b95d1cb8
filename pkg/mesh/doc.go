// Package mesh is the one place that knows NATS: the connection, the topology
// (streams, buckets, consumers), publishing with its error mapping, the consume
// loop with its settle rule, compare-and-set records, claims, presence, blobs
// and request–reply endpoints.
//
// Invariants kept here:
//   - a publish is awaited, never retried behind the caller's back, and never
//     buffered while the connection is down (ReconnectBufSize(-1));
//   - only 10071 is a conflict, ErrConflict; 10164 and 10158 say that a write is in
//     flight, which its leader may lose, and are repeated until one is stored;
//     10077 is a full stream unless a read-back shows another revision;
//   - reads that decide something go through the stream's leader: the buckets
//     runs, claims, workers and the streams CRUMBS and INBOX have direct get off;
//   - a message is settled in exactly one function (settle.go).
package mesh
