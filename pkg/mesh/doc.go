// Package mesh is the one place that knows NATS: the connection, the topology
// (streams, buckets, consumers), publishing with its error mapping, the consume
// loop with its settle rule, compare-and-set records, claims, presence, blobs
// and request–reply endpoints.
//
// Invariants kept here:
//   - a publish is awaited, never retried behind the caller's back, and never
//     buffered while the connection is down (ReconnectBufSize(-1));
//   - conflict codes 10071 and 10164 are one error, ErrConflict; 10077 is a full
//     stream unless a read-back shows another revision; 10158 is repeated;
//   - reads that decide something go through the stream's leader: the buckets
//     runs, claims, workers and the streams CRUMBS and INBOX have direct get off;
//   - a message is settled in exactly one function (settle.go).
package mesh
