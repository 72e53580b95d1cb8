// Package load is the clients of a mesh under chaos: they start runs under ids of
// their own, answer questions, cancel, and repeat what got no answer under the
// same id, as docs/protocol.md says a client may. What is done with which run is
// a function of the seed.
package load
