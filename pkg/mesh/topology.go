package mesh

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Names of the durable consumers.
const (
	ConsumerRequests  = "requests"
	ConsumerEvents    = "events"
	ConsumerTimers    = "timers"
	ConsumerApprovals = "approvals"
)

// GroupConsumer is the durable consumer of a worker group.
func GroupConsumer(group string) string { return "group_" + group }

// ProviderConsumer is the durable consumer of a provider instance.
func ProviderConsumer(provider string) string { return "provider_" + provider }

const (
	// codeNoStorage is what JetStream refuses a stream with whose size it cannot
	// reserve.
	codeNoStorage = 10047
	// codeNoPeers is what a cluster refuses a stream with that it has no servers for:
	// too few of them, not all up yet, or without the room.
	codeNoPeers = 10005
)

// Topology is what Ensure makes and services verify.
type Topology struct {
	Groups    map[string]int // maxInFlight by worker group; 0 = Settings.GroupMaxPending
	Providers map[string]int // maxInFlight by provider instance; crumbs.ProviderOwn is always there
}

// providers are all that get a queue.
func (t Topology) providers() map[string]int {
	all := map[string]int{crumbs.ProviderOwn: 0}
	maps.Copy(all, t.Providers)
	return all
}

type consumerSpec struct {
	stream string
	cfg    jetstream.ConsumerConfig
}

// streams is the one table of streams and buckets; docs/ARCHITECTURE.md draws it.
func (s Settings) streams() []jetstream.StreamConfig {
	file := func(name string, subjects ...string) jetstream.StreamConfig {
		return jetstream.StreamConfig{Name: name, Subjects: subjects, Replicas: s.Replicas, Storage: s.Storage, Duplicates: s.DuplicateWindow}
	}
	queue := func(c jetstream.StreamConfig, bytes int64) jetstream.StreamConfig {
		c.Retention, c.Discard, c.MaxBytes, c.AllowMsgTTL = jetstream.WorkQueuePolicy, jetstream.DiscardNew, bytes, true
		return c
	}
	timers := file(crumbs.StreamTimers, crumbs.SubjectTimers)
	// nats-server refuses schedules with DiscardNew, and DiscardOld would drop waiting timers: only the account bounds it (ADR 0004).
	timers.AllowMsgSchedules, timers.AllowMsgTTL = true, true
	inbox := queue(file(crumbs.StreamInbox, crumbs.InboxSubjects()...), s.InboxBytes)
	inbox.AllowDirect = true // approvals looks for the decisions it made, and may see no more of INBOX
	stored := file(crumbs.StreamCrumbs, crumbs.SubjectCrumbs)
	stored.MaxAge, stored.MaxBytes, stored.AllowDirect = s.CrumbsAge, s.CrumbsBytes, true
	deltas := file(crumbs.StreamDeltas, crumbs.SubjectDeltas)
	deltas.Storage, deltas.MaxAge, deltas.MaxBytes, deltas.Duplicates = s.DeltasStorage, s.DeltasAge, s.DeltasBytes, min(s.DuplicateWindow, s.DeltasAge)
	deltas.AllowDirect = true
	dead := file(crumbs.StreamDead, crumbs.SubjectDead)
	dead.MaxAge, dead.MaxBytes, dead.AllowDirect = s.DeadAge, s.DeadBytes, true
	return []jetstream.StreamConfig{
		queue(file(crumbs.StreamRequests, crumbs.SubjectRequests), s.RequestsBytes),
		inbox, timers,
		queue(file(crumbs.StreamModelCalls, crumbs.SubjectModelCalls), s.CallsBytes),
		queue(file(crumbs.StreamToolCalls, crumbs.SubjectToolCalls), s.CallsBytes),
		stored, deltas, dead, s.blobs(),
		s.runs(), s.bucket(crumbs.BucketAgents, 0), s.bucket(crumbs.BucketTools, 0),
		s.bucket(crumbs.BucketWorkers, s.PresenceTTL), s.bucket(crumbs.BucketApprovals, 0),
		s.bucket(crumbs.BucketClaims, s.ClaimTTL), s.bucket(crumbs.BucketSessions, 0),
	}
}

// runs is the bucket of records; those of finished runs have a TTL of their own.
func (s Settings) runs() jetstream.StreamConfig {
	c := s.bucket(crumbs.BucketRuns, 0)
	c.Metadata = map[string]string{metaRunTTL: s.RunTTL.String()}
	return c
}

// blobs is the stream of the blobs: one message a subject, once.
func (s Settings) blobs() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: crumbs.StreamBlobs, Subjects: []string{crumbs.AllBlobs}, Replicas: s.Replicas, Storage: s.Storage, Duplicates: s.DuplicateWindow,
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true, MaxAge: s.BlobsAge, DenyDelete: true, AllowDirect: true,
	}
}

// bucket is a key-value bucket. A rollup, by which one writer of a bucket could
// empty all of it, is refused. Reads that decide something go through the leader,
// but for claims and presence, where a replica's answer is made sure of by the
// compare-and-set that follows (Claims, Alive).
func (s Settings) bucket(name string, ttl time.Duration) jetstream.StreamConfig {
	window := s.DuplicateWindow
	if ttl > 0 && ttl < window {
		window = ttl
	}
	c := jetstream.StreamConfig{
		Name: "KV_" + name, Subjects: []string{"$KV." + name + ".>"}, Replicas: s.Replicas, Storage: s.Storage,
		MaxMsgsPerSubject: 1, MaxAge: ttl, Discard: jetstream.DiscardNew, Duplicates: window, DenyDelete: true, AllowDirect: true,
	}
	if name == crumbs.BucketRuns || name == crumbs.BucketApprovals {
		// Rows with times of their own leave markers, for which the server allows
		// rollups: only where one service alone writes.
		c.AllowMsgTTL, c.SubjectDeleteMarkerTTL = true, time.Minute
	}
	return c
}

func (s Settings) consumers(t Topology) []consumerSpec {
	durable := func(name string, deliver, pending int, filters ...string) jetstream.ConsumerConfig {
		c := jetstream.ConsumerConfig{Durable: name, AckPolicy: jetstream.AckExplicitPolicy, AckWait: s.AckWait,
			MaxDeliver: deliver, MaxAckPending: pending} // as many replicas as the stream: who adds a group need not know them
		if len(filters) == 1 {
			c.FilterSubject = filters[0]
		}
		return c
	}
	out := []consumerSpec{
		{crumbs.StreamRequests, durable(ConsumerRequests, -1, s.RequestsMaxPending)},
		{crumbs.StreamInbox, durable(ConsumerEvents, -1, s.EventsMaxPending)},
		{crumbs.StreamTimers, durable(ConsumerTimers, -1, s.EventsMaxPending, crumbs.SubjectTimersDue)},
		{crumbs.StreamCrumbs, durable(ConsumerApprovals, -1, s.EventsMaxPending, crumbs.SubjectHumanCrumbs)},
	}
	for _, g := range sortedKeys(t.Groups) {
		out = append(out, consumerSpec{crumbs.StreamToolCalls, durable(GroupConsumer(g), s.WorkerMaxDeliver, s.pending(t.Groups[g]), crumbs.ToolCallFilter(g))})
	}
	for _, p := range sortedKeys(t.providers()) {
		out = append(out, consumerSpec{crumbs.StreamModelCalls, durable(ProviderConsumer(p), s.WorkerMaxDeliver, s.pending(t.Providers[p]), crumbs.ModelCallFilter(p))})
	}
	return out
}

func (s Settings) pending(limit int) int {
	if limit > 0 {
		return limit
	}
	return s.GroupMaxPending
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Ensure creates or updates every stream, bucket and consumer. It fails with
// UNAVAILABLE or, when NATS refuses a change, INVALID_CONFIG naming it.
func (c *Conn) Ensure(ctx context.Context, t Topology) error {
	for _, cfg := range c.Settings.streams() {
		if err := c.ensureStream(ctx, cfg); err != nil {
			return err
		}
	}
	return c.EnsureConsumers(ctx, t)
}

// Adopt takes over, into Settings, the replicas, sizes, ages and storage of the streams
// that are there, so that Ensure changes none of them unasked. Found says whether
// there is a mesh at all. It fails with UNAVAILABLE.
func (c *Conn) Adopt(ctx context.Context) (found bool, err error) {
	s := &c.Settings
	for name, take := range map[string]func(jetstream.StreamConfig){
		crumbs.StreamRequests:  func(f jetstream.StreamConfig) { s.RequestsBytes = f.MaxBytes },
		crumbs.StreamInbox:     func(f jetstream.StreamConfig) { s.InboxBytes, s.Replicas, found = f.MaxBytes, f.Replicas, true },
		crumbs.StreamToolCalls: func(f jetstream.StreamConfig) { s.CallsBytes = f.MaxBytes },
		crumbs.StreamCrumbs:    func(f jetstream.StreamConfig) { s.CrumbsBytes, s.CrumbsAge = f.MaxBytes, f.MaxAge },
		crumbs.StreamDeltas: func(f jetstream.StreamConfig) {
			s.DeltasBytes, s.DeltasAge, s.DeltasStorage = f.MaxBytes, f.MaxAge, f.Storage
		},
		crumbs.StreamDead: func(f jetstream.StreamConfig) { s.DeadBytes, s.DeadAge = f.MaxBytes, f.MaxAge },

		crumbs.StreamBlobs:          func(f jetstream.StreamConfig) { s.BlobsAge = f.MaxAge },
		"KV_" + crumbs.BucketClaims: func(f jetstream.StreamConfig) { s.ClaimTTL = f.MaxAge },
		"KV_" + crumbs.BucketRuns:   s.takeRunTTL,
	} {
		there, err := c.JS.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return found, unavailable(err, "stream "+name)
		}
		take(there.CachedInfo().Config)
	}
	return found, nil
}

// ensureStream makes a stream what it should be, as far as NATS lets one change it:
// message TTLs that an earlier release turned on stay on for good.
func (c *Conn) ensureStream(ctx context.Context, cfg jetstream.StreamConfig) error {
	there, err := c.JS.Stream(ctx, cfg.Name)
	switch {
	case err == nil:
		cfg.AllowMsgTTL = cfg.AllowMsgTTL || there.CachedInfo().Config.AllowMsgTTL
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return topologyError("stream "+cfg.Name, err)
	}
	if _, err := c.JS.CreateOrUpdateStream(ctx, cfg); err != nil {
		return topologyError("stream "+cfg.Name, err)
	}
	return nil
}

// EnsureConsumers creates or updates the consumers only: what `agents apply`
// does for groups that a project adds.
func (c *Conn) EnsureConsumers(ctx context.Context, t Topology) error {
	for _, spec := range c.Settings.consumers(t) {
		if _, err := c.JS.CreateOrUpdateConsumer(ctx, spec.stream, spec.cfg); err != nil {
			return topologyError(fmt.Sprintf("consumer %s of %s", spec.cfg.Durable, spec.stream), err)
		}
	}
	return nil
}

func topologyError(what string, err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == codeNoStorage {
		return fault.Wrap(fault.InvalidConfig, err, "NATS has no room for %s: raise max_file_store of its jetstream block (a mesh of the default size reserves 85 GiB), or run `crumb init --size small`", what)
	}
	if errors.As(err, &api) && api.ErrorCode == codeNoPeers {
		return fault.Wrap(fault.Unavailable, err, "the NATS cluster has no servers for the replicas of %s: %s; have as many as --replicas asks for, wait until all are up, and give each the room (85 GiB, or `crumb init --size small`)", what, api.Description)
	}
	if errors.As(err, &api) {
		return fault.Wrap(fault.InvalidConfig, err, "NATS refused %s: %s (code %d)", what, api.Description, api.ErrorCode)
	}
	return unavailable(err, what)
}

// Verify checks that what is needed and the named consumers exist. It fails with
// TOPOLOGY_MISSING and what repairs it, with PERMISSIONS_VIOLATION when NATS does not
// let this role ask, and with UNAVAILABLE.
func (c *Conn) Verify(ctx context.Context, needs []Need, consumers map[string][]string) error {
	for _, n := range needs {
		if n.Live {
			continue
		}
		there, err := c.there(ctx, n)
		if err != nil {
			return err
		}
		if !there {
			return c.missing(ctx, needs, n.Stream)
		}
	}
	for _, stream := range sortedKeys(consumers) {
		for _, name := range consumers[stream] {
			_, err := c.JS.Consumer(ctx, stream, name)
			if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
				return fault.New(fault.TopologyMissing, "consumer %s of stream %s is missing; %s", name, stream, repair(name))
			}
			if err != nil {
				return unavailable(err, "consumer "+name)
			}
		}
	}
	return nil
}

// repairAll makes the whole topology.
const repairAll = "run `crumb init`"

// repair is what makes one consumer.
func repair(consumer string) string {
	if g, ok := strings.CutPrefix(consumer, "group_"); ok {
		return "run `crumb init --group " + g + "`, or name " + g + " under `groups` of crumb.yaml and apply it"
	}
	if p, ok := strings.CutPrefix(consumer, "provider_"); ok && p != crumbs.ProviderOwn {
		return "run `crumb init --provider " + p + "`, or name " + p + " under `providers` of crumb.yaml and apply it"
	}
	return repairAll
}

// HasGroup reports whether a worker group has a queue. It fails with TOPOLOGY_MISSING
// when the stream of all such queues is not there, and with UNAVAILABLE.
func (c *Conn) HasGroup(ctx context.Context, group string) (bool, error) {
	return c.hasConsumer(ctx, crumbs.StreamToolCalls, GroupConsumer(group))
}

// HasProvider is HasGroup for a provider instance.
func (c *Conn) HasProvider(ctx context.Context, provider string) (bool, error) {
	return c.hasConsumer(ctx, crumbs.StreamModelCalls, ProviderConsumer(provider))
}

func (c *Conn) hasConsumer(ctx context.Context, stream, name string) (bool, error) {
	_, err := c.JS.Consumer(ctx, stream, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, nil
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, fault.New(fault.TopologyMissing, "stream %s of consumer %s is missing; %s", stream, name, repairAll)
	}
	if err != nil {
		return false, unavailable(err, "consumer "+name)
	}
	return true, nil
}

// Providers lists the provider instances of the project that have a queue.
func (c *Conn) Providers(ctx context.Context) ([]string, error) {
	s, err := c.stream(ctx, crumbs.StreamModelCalls)
	if err != nil {
		return nil, err
	}
	var out []string
	names := s.ConsumerNames(ctx)
	for n := range names.Name() {
		if p, ok := strings.CutPrefix(n, "provider_"); ok {
			if p != crumbs.ProviderOwn {
				out = append(out, p)
			}
		}
	}
	if err := names.Err(); err != nil {
		return nil, unavailable(err, "consumers of "+crumbs.StreamModelCalls)
	}
	slices.Sort(out)
	return out, nil
}
