// Package observability checks what an operator sees: that the numbers are right on
// real services, that document, dashboard and alert rules speak of metrics that
// exist, that one run is one trace over processes and days, and that log lines say
// which run they are about.
package observability
