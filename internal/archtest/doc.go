// Package archtest holds the shape of the repository: who may import whom, where
// NATS types end, what the run machine may not touch, what no source file may
// contain, and that every link and every citation leads to something that is here.
//
// A rule is a function from a Tree to its violations, each with place and reason.
// The tests run every rule on the repository, and every rule on a small tree that
// breaks it: a rule that finds nothing anywhere proves nothing.
//
// To allow an exception, add it to the table of its rule with the reason, and an
// ADR where the exception is an edge between packages.
package archtest
