// Package argument holds the rules for the arguments of a call: what they may
// be (a JSON Schema), what is filled in (its defaults), how a misfit is told to
// the model that sent it, and the canonical hash an approval is bound to.
//
// The order of use is Normalize, Schema.Fill, Schema.Check, Hash. Each step
// keeps the text of what it does not change: a number is never re-rendered, so
// what a person approves is what the tool receives.
//
// Every document is read by one strict reader: UTF-8, no duplicate keys, no
// lone surrogates, at most DepthMax levels and BytesMax bytes. Two documents
// that a lax reader would take for one never share a hash.
//
// The package is pure and all of it may be used from several goroutines.
package argument
