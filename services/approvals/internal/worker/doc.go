// Package worker is the NATS part of approvals: the rows in the bucket, the
// crumbs that feed them, the endpoints people answer through and the publisher
// that repeats a decision until the run has spoken.
package worker
