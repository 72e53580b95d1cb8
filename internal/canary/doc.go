// Package canary lets secrets loose in a whole mesh and then looks for them: in the
// files that the server wrote, in what it holds in memory, in every log line and in
// every span. It has no code of its own.
package canary
