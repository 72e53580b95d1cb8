// Package machine is what a mesh under test stands on: processes that are
// started again when they end, a network of namespaces that can be cut, and a
// proxy that makes the way to NATS long. All of it is taken down with the program
// that made it, however that ends; what a killed one left of its network is
// removed by the next.
package machine
