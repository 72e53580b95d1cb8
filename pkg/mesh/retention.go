package mesh

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// What the ages of streams and buckets have to outlast.
const (
	RequestMax  = 24 * time.Hour // longest that a command may wait in its queue (startBefore)
	QuestionMax = 7 * day        // longest that a question waits for a person
	// recordSlack is how much longer than a run's crumbs its final record lives, so
	// that an id is never free while crumbs of it are there.
	recordSlack = day
)

// metaRunTTL is the metadata of the bucket `runs` that says how long finished
// records live: it is in the writes, not in the bucket's configuration.
const metaRunTTL = "crumbmesh-run-ttl"

// KeepCrumbs returns s with another age of CRUMBS, and everything that follows from
// it: a run may take almost as long, its id is known for a day longer, and what it
// put aside outlives both.
func (s Settings) KeepCrumbs(age time.Duration) Settings {
	s.CrumbsAge, s.RunTTL = age, age+recordSlack
	s.BlobsAge = max(s.BlobsAge, s.CrumbsAge+s.RunTTL)
	return s
}

// RunMax is how long a run may take: a fourteenth less than its crumbs are kept, so
// that even the longest can be read whole for a while after its end.
func (s Settings) RunMax() time.Duration { return s.CrumbsAge - s.CrumbsAge/14 }

// Check holds the settings of a deployment to what they must outlast. It returns
// INVALID_CONFIG with all that is wrong.
func (s Settings) Check() error {
	var errs []error
	least := func(name string, got, least time.Duration, why string) {
		if got < least {
			errs = append(errs, fault.New(fault.InvalidConfig, "%s is %s: expected at least %s, since %s", name, got, least, why))
		}
	}
	least("the age of crumbs", s.CrumbsAge, QuestionMax+day, "a question may wait 7 days, and the next crumb stands on the last one")
	least("the time of finished records", s.RunTTL, s.CrumbsAge+1, "a run's id must not be free while its crumbs are there")
	least("the age of blobs", s.BlobsAge, s.CrumbsAge+s.RunTTL, "what a run puts aside at its start is read until its end, and then as long as its crumbs and its record")
	least("the age of blobs", s.BlobsAge, s.DeadAge, "dead letters refer to them")
	least("the age of dead letters", s.DeadAge, day, "somebody has to find them")
	least("the age of deltas", s.DeltasAge, time.Minute, "who follows a run may come a little late")
	least("the time of claims", s.ClaimTTL, 2*RequestMax, "a command may wait a day and its call take another")
	least("the time of a cancel without a run", s.TombstoneTTL, time.Minute, "its request is on its way")
	least("the time of a fired timer", s.TimerTTL, time.Hour, "it waits while no orchestrator runs")
	least("the time of a worker's presence", s.PresenceTTL, 2*s.AckWait, "a worker that lives must not seem gone to who gets its calls again")
	least("the wait for an ack", s.AckWait, time.Second, "heartbeats go out each third of it")
	least("the duplicate window", s.DuplicateWindow, 100*time.Millisecond, "NATS takes no less")
	for name, bytes := range map[string]int64{"REQUESTS": s.RequestsBytes, "INBOX": s.InboxBytes, "MODELCALLS and TOOLCALLS": s.CallsBytes,
		"CRUMBS": s.CrumbsBytes, "DELTAS": s.DeltasBytes, "DEADLETTER": s.DeadBytes} {
		if bytes < mib {
			errs = append(errs, fault.New(fault.InvalidConfig, "the size of %s is %d bytes: expected at least %d", name, bytes, mib))
		}
	}
	if s.Replicas != 1 && s.Replicas != 3 && s.Replicas != 5 {
		errs = append(errs, fault.New(fault.InvalidConfig, "replicas: expected 1, 3 or 5, got %d", s.Replicas))
	}
	for name, n := range map[string]int{"deliveries to workers": s.WorkerMaxDeliver, "requests in hand": s.RequestsMaxPending,
		"events in hand": s.EventsMaxPending, "calls in hand": s.GroupMaxPending} {
		if n < 1 {
			errs = append(errs, fault.New(fault.InvalidConfig, "%s: expected at least 1, got %d", name, n))
		}
	}
	return wrong(errs)
}

// wrong is one fault of all that is wrong.
func wrong(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = fault.From(err).Message
	}
	return fault.New(fault.InvalidConfig, "%s", strings.Join(texts, "; "))
}

// AdoptRetention takes over, into Settings, the ages that a service acts by from the
// streams and buckets that are there: `crumb init` decides them for all. It fails
// with TOPOLOGY_MISSING or UNAVAILABLE.
func (c *Conn) AdoptRetention(ctx context.Context) error {
	s := &c.Settings
	for _, look := range []struct {
		stream string
		take   func(jetstream.StreamConfig)
	}{
		{crumbs.StreamCrumbs, func(f jetstream.StreamConfig) { s.CrumbsAge = f.MaxAge }},
		{"KV_" + crumbs.BucketClaims, func(f jetstream.StreamConfig) { s.ClaimTTL = f.MaxAge }},
		{"KV_" + crumbs.BucketRuns, s.takeRunTTL},
	} {
		there, err := c.JS.Stream(ctx, look.stream)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return fault.New(fault.TopologyMissing, "stream %s is missing; %s", look.stream, repairAll)
		}
		if err != nil {
			return unavailable(err, "stream "+look.stream)
		}
		look.take(there.CachedInfo().Config)
	}
	return nil
}

// takeRunTTL leaves the setting as it is when the bucket was made by a release that
// did not say.
func (s *Settings) takeRunTTL(f jetstream.StreamConfig) {
	if ttl, err := time.ParseDuration(f.Metadata[metaRunTTL]); err == nil {
		s.RunTTL = ttl
	}
}
