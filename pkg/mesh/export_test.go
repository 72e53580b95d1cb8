package mesh

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// Table renders what the topology keeps as docs/retention.md has it.
func (s Settings) Table() string {
	var out strings.Builder
	out.WriteString("| stream | kept | at most | when full | consumer | deliveries | in hand |\n|---|---|---|---|---|---|---|\n")
	consumers := map[string]jetstream.ConsumerConfig{}
	for _, c := range s.consumers(Topology{Groups: map[string]int{"‹group›": 0}, Providers: map[string]int{"‹instance›": 0}}) {
		consumers[c.stream] = c.cfg
	}
	for _, c := range s.streams() {
		c.Name = strings.ReplaceAll(c.Name, "KV_", "bucket ")
		row := []string{c.Name, s.kept(c), amount(c.MaxBytes), full(c), "", "", ""}
		if d, ok := consumers[strings.ReplaceAll(c.Name, "bucket ", "KV_")]; ok {
			row[4], row[5], row[6] = d.Durable, "unbounded", fmt.Sprint(d.MaxAckPending)
			if d.MaxDeliver > 0 {
				row[5] = fmt.Sprint(d.MaxDeliver)
			}
		}
		out.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	return out.String()
}

func (s Settings) kept(c jetstream.StreamConfig) string {
	switch {
	case c.Name == "bucket runs":
		return span(s.RunTTL) + " after the run ended; a cancel without a run " + span(s.TombstoneTTL)
	case c.Name == "bucket approvals":
		return "15 d after the question's end" // services/approvals/internal/question.RowTTL
	case c.Name == crumbs.StreamTimers:
		return "until due, then " + span(s.TimerTTL)
	case c.Name == crumbs.StreamModelCalls, c.Name == crumbs.StreamToolCalls:
		return "until acknowledged, or its startBefore (at most " + span(RequestMax) + ")"
	case c.Retention == jetstream.WorkQueuePolicy:
		return "until acknowledged"
	case c.MaxAge == 0:
		return "for good"
	case c.Storage == jetstream.MemoryStorage:
		return span(c.MaxAge) + ", in memory"
	}
	return span(c.MaxAge)
}

func span(d time.Duration) string {
	if d%day == 0 {
		return fmt.Sprintf("%d d", d/day)
	}
	return strings.TrimSuffix(strings.TrimSuffix(d.String(), "0s"), "0m")
}

func amount(bytes int64) string {
	switch {
	case bytes <= 0:
		return ""
	case bytes%gib == 0:
		return fmt.Sprintf("%d GiB", bytes/gib)
	}
	return fmt.Sprintf("%d MiB", bytes/mib)
}

func full(c jetstream.StreamConfig) string {
	if c.MaxBytes <= 0 {
		return ""
	}
	return cmp.Or(map[bool]string{true: "refuses"}[c.Discard == jetstream.DiscardNew], "drops the oldest")
}

// Look is one look of a Standing, without its clock.
func (s *Standing) Look(ctx context.Context) { s.look(ctx) }
