// Package readme holds the pages for users to what the release does: a promise
// that nobody tries stops being true. docs/files.md is compared with the schemas
// and with what loads, the program of docs/workers.md is compiled, the transcript
// of docs/ARCHITECTURE.md is compared with the golden file it quotes; the commands of
// docs/hitl.md are run beside those of crumb (cmd/crumb, TestDocument_Hitl). The commands
// of README.md are run; that suite needs the nats command and stands behind the
// tag e2e (`make test-all`).
package readme
