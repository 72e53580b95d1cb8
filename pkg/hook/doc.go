// Package hook is what an author of hooks in Go imports: Register declares functions
// that a worker serves beside its tools, and the answers that they give. What the mesh
// makes of the answers is in package rule.
package hook
