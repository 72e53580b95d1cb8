// Package check holds a history against what the mesh promises.
//
// A history is what stands on the streams, read raw, beside what the client asked
// for and what the world (a counting sink) saw happen. The package decodes JSON
// and imports nothing of the product: the judge shares no code with the judged.
package check
