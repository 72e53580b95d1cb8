// Package readme runs the commands of README.md: what a page promises and nobody
// runs stops being true. Its suite needs the nats command and stands behind the
// tag e2e (`make test-all`).
package readme
