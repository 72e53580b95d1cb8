package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Drift is a stream, bucket or consumer that is not as this release makes it, or a
// stream that is not whole on each of its servers.
type Drift struct {
	What    string   // stream INBOX, consumer events of INBOX
	Missing bool     // else Differs says in what
	Differs []string // "ack wait is 30s, expected 4s"
	Behind  string   // which of its replicas does not have what the others have, "replica b is behind"
}

// Drift compares what is there with what Settings (after Adopt: the sizes and ages
// that were chosen) and t would make. It fails with UNAVAILABLE.
func (c *Conn) Drift(ctx context.Context, t Topology) ([]Drift, error) {
	var out []Drift
	note := func(what string, missing bool, differs []string) {
		if missing || len(differs) > 0 {
			out = append(out, Drift{What: what, Missing: missing, Differs: differs})
		}
	}
	var all []jetstream.Stream
	for _, want := range c.Settings.streams() {
		s, err := c.JS.Stream(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			note("stream "+want.Name, true, nil)
			continue
		}
		if err != nil {
			return nil, unavailable(err, "stream "+want.Name)
		}
		note("stream "+want.Name, false, streamDiffers(want, s.CachedInfo().Config))
		all = append(all, s)
	}
	for _, spec := range c.Settings.consumers(t) {
		what := fmt.Sprintf("consumer %s of %s", spec.cfg.Durable, spec.stream)
		have, err := c.JS.Consumer(ctx, spec.stream, spec.cfg.Durable)
		if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
			note(what, true, nil)
			continue
		}
		if err != nil {
			return nil, unavailable(err, what)
		}
		note(what, false, consumerDiffers(spec.cfg, have.CachedInfo().Config))
	}
	late, err := stillBehind(ctx, all)
	return append(out, late...), err
}

// behindLooks is how often a replica must be behind to be said to be: for a moment one
// is with each message.
const behindLooks = 5

func stillBehind(ctx context.Context, all []jetstream.Stream) (late []Drift, err error) {
	for look := 1; ; look++ {
		late = nil
		var again []jetstream.Stream
		for _, s := range all {
			if why := behind(s.CachedInfo()); why != "" {
				again, late = append(again, s), append(late, Drift{What: "stream " + s.CachedInfo().Config.Name, Behind: why})
			}
		}
		if all = again; len(all) == 0 || look == behindLooks {
			return late, nil
		}
		if err := sleep(ctx, settlePoll); err != nil {
			return nil, err
		}
		for _, s := range all {
			limited, cancel := bounded(ctx, requestTimeout)
			_, err := s.Info(limited) // what is cached is then new
			cancel()
			if err != nil {
				return nil, unavailable(err, "stream "+s.CachedInfo().Config.Name)
			}
		}
	}
}

// differ is one comparison.
type differ struct {
	what       string
	want, have any
}

func differences(all []differ) (out []string) {
	for _, d := range all {
		if d.want != d.have {
			out = append(out, fmt.Sprintf("%s is %v, expected %v", d.what, d.have, d.want))
		}
	}
	return out
}

// streamDiffers leaves out message TTLs that are on beyond need: NATS never turns them
// off again.
func streamDiffers(want, have jetstream.StreamConfig) []string {
	subjects := func(s []string) string { return strings.Join(slices.Sorted(slices.Values(s)), " ") }
	unlimited := func(n int64) int64 { return max(n, -1) - boolInt(n == 0) }
	return differences([]differ{
		{"subjects", subjects(want.Subjects), subjects(have.Subjects)}, {"retention", want.Retention, have.Retention},
		{"discard", want.Discard, have.Discard}, {"storage", want.Storage, have.Storage}, {"replicas", max(1, want.Replicas), max(1, have.Replicas)},
		{"max bytes", unlimited(want.MaxBytes), unlimited(have.MaxBytes)}, {"max age", want.MaxAge, have.MaxAge},
		{"messages per subject", unlimited(want.MaxMsgsPerSubject), unlimited(have.MaxMsgsPerSubject)}, {"duplicate window", want.Duplicates, have.Duplicates},
		{"message TTL", want.AllowMsgTTL, want.AllowMsgTTL && have.AllowMsgTTL}, {"schedules", want.AllowMsgSchedules, have.AllowMsgSchedules},
		{"direct reads", want.AllowDirect, have.AllowDirect}, {"sealed", false, have.Sealed},
	})
}

func consumerDiffers(want, have jetstream.ConsumerConfig) []string {
	paused := have.PauseUntil != nil && time.Now().Before(*have.PauseUntil)
	out := differences([]differ{
		{"ack policy", want.AckPolicy, have.AckPolicy}, {"ack wait", want.AckWait, have.AckWait}, {"max deliver", want.MaxDeliver, have.MaxDeliver},
		{"filter", want.FilterSubject, have.FilterSubject}, {"backoff", len(want.BackOff), len(have.BackOff)}, {"paused", false, paused},
	})
	if _, _, ofWorkers := QueueOf(want.Durable); !ofWorkers { // a project chooses those of groups and providers
		out = append(out, differences([]differ{{"max ack pending", want.MaxAckPending, have.MaxAckPending}})...)
	}
	return out
}

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
