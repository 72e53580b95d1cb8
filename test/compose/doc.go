// Package compose tests compose.yaml without a container engine: the reference
// implementation of the format loads it, and the commands that it names are started
// as processes of this machine, against a real cluster of NATS servers, in the order
// that it names.
//
// It is a module of its own: what reads compose files is no part of the product. It
// has tests only, behind the tag e2e.
package compose
