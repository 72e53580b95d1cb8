package mesh

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Settings are the durations, sizes and bounds of the topology; DefaultSettings
// has the defaults. A deployment may change them; tests shorten them.
type Settings struct {
	Replicas        int // of every stream and bucket
	Storage         jetstream.StorageType
	DeltasStorage   jetstream.StorageType // memory only where the stream is made again when a server starts (ADR 0021)
	AckWait         time.Duration         // of every consumer; heartbeats go out each third of it
	DuplicateWindow time.Duration
	ClaimTTL        time.Duration // longer than any request can wait
	PresenceTTL     time.Duration // a worker is gone after this
	CrumbsAge       time.Duration
	DeltasAge       time.Duration
	DeadAge         time.Duration
	BlobsAge        time.Duration
	RunTTL          time.Duration // of the record of a finished run; longer than CrumbsAge
	TombstoneTTL    time.Duration // of a cancel without a run
	TimerTTL        time.Duration // of a fired timer

	RequestsBytes, InboxBytes, CallsBytes, CrumbsBytes, DeltasBytes, DeadBytes int64
	WorkerMaxDeliver                                                           int
	RequestsMaxPending, EventsMaxPending, GroupMaxPending                      int
}

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
	day = 24 * time.Hour
)

// DefaultSettings returns the settings of a deployment.
func DefaultSettings() Settings {
	return Settings{
		Replicas: 1, Storage: jetstream.FileStorage, DeltasStorage: jetstream.FileStorage,
		AckWait: 4 * time.Second, DuplicateWindow: 2 * time.Minute, ClaimTTL: 48 * time.Hour, PresenceTTL: 15 * time.Second,
		CrumbsAge: 14 * day, DeltasAge: 15 * time.Minute, DeadAge: 30 * day, BlobsAge: 30 * day,
		RunTTL: 15 * day, TombstoneTTL: day, TimerTTL: day,
		WorkerMaxDeliver: 50, RequestsMaxPending: 256, EventsMaxPending: 1000, GroupMaxPending: 10_000,
	}.Standard()
}

// DevSettings returns the settings of an embedded mesh, which is made again at
// each start: the same times, smaller streams, deltas in memory.
func DevSettings() Settings {
	s := DefaultSettings().Small()
	s.DeltasStorage = jetstream.MemoryStorage
	return s
}

// clusterReplicas are the copies of each stream on a cluster.
const clusterReplicas = 3

// Cluster returns s for a cluster of NATS servers: three copies of every stream,
// and deltas in memory, which a cluster makes again when all of it was down.
func (s Settings) Cluster() Settings {
	s.Replicas, s.DeltasStorage = clusterReplicas, jetstream.MemoryStorage
	return s
}

// Standard returns s with the streams of a deployment, 85 GiB in all.
func (s Settings) Standard() Settings {
	s.RequestsBytes, s.InboxBytes, s.CallsBytes = gib, 8*gib, 4*gib
	s.CrumbsBytes, s.DeltasBytes, s.DeadBytes = 64*gib, 256*mib, 4*gib
	return s
}

// Small returns s with streams for one machine: 6 GiB in all instead of 85.
func (s Settings) Small() Settings {
	s.RequestsBytes, s.InboxBytes, s.CallsBytes = 128*mib, gib, 256*mib
	s.CrumbsBytes, s.DeltasBytes, s.DeadBytes = 4*gib, 64*mib, 256*mib
	return s
}

func (s Settings) orDefault() Settings {
	if s.AckWait == 0 {
		return DefaultSettings()
	}
	return s
}

// Heartbeat is how often a held message is kept from being redelivered.
func (s Settings) Heartbeat() time.Duration { return s.AckWait / 3 }
