// Package instrument is the one table of what the mesh measures, and the only way
// to measure it: names, units, labels and bucket bounds stand in All, everything
// else reads them from there. docs/operations-observability.md, the dashboard and
// the alert rules are tested against it.
//
// Labels are agents, tools, groups, providers, models, streams, consumers, statuses
// and codes, never ids: what a label may say is bounded by configuration, and
// seriesMax bounds it again, whatever that configuration is.
package instrument
