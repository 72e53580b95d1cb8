// Package question is the pure part of approvals: how a row moves when a crumb
// or an answer comes, and whether an answer fits its question. No NATS, no
// clock, no keys.
//
// A row moves open → decided → applied | expired | withdrawn, never back, and
// the order in which human:required, the answer and human:resumed are seen does
// not change where it ends.
package question
