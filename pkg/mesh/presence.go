package mesh

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Presence is a worker's row in bucket `workers`: gone PresenceTTL after its
// last heartbeat.
type Presence struct {
	Worker  string      `json:"worker"`
	Service string      `json:"service"` // toolexec, modelgw, or ServiceStarting
	Queue   string      `json:"queue"`   // group or provider instance
	Host    string      `json:"host,omitempty"`
	PID     int         `json:"pid,omitempty"`
	Since   crumbs.Time `json:"since"`

	// Of the heartbeat: the release, the worker's own clock, and how often NATS
	// refused it something.
	Version    string      `json:"version,omitempty"`
	At         crumbs.Time `json:"at,omitzero"`
	Violations int64       `json:"violations,omitempty"`

	Stored time.Time `json:"-"` // the server's clock, when it is read back
}

// NewWorkerID returns a fresh id of a worker process.
func NewWorkerID(queue string) string { return queue + "-" + uuid.NewString()[:13] }

// key names the row. A worker writes rows of its own queue only.
func (p Presence) key() string {
	if p.Service == ServiceModels {
		return crumbs.ModelPresence(p.Queue, p.Worker)
	}
	return crumbs.ToolPresence(p.Queue, p.Worker)
}

// What presents itself as Presence.Service.
const (
	ServiceTools  = "toolexec"
	ServiceModels = "modelgw"
)

// A worker says that it is there so often while its row lives, and so much more
// often after a row that was not stored.
const (
	presenceBeats   = 3
	presenceRetries = 10
)

// Announce keeps a worker present until ctx ends, then withdraws it. It returns
// after the first heartbeat is stored; done is closed when the row is gone.
func (c *Conn) Announce(ctx context.Context, p Presence) (done <-chan struct{}, err error) {
	p.Since, p.PID = crumbs.At(time.Now()), os.Getpid()
	p.Host, _ = os.Hostname() // a name for people; empty is fine
	bucket := c.Bucket(crumbs.BucketWorkers)
	if err := c.beat(ctx, bucket, p); err != nil {
		return nil, err
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		every := c.Settings.PresenceTTL / presenceBeats
		t := time.NewTimer(every)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				c.withdraw(bucket, p.key())
				return
			case <-t.C:
			}
			next := every
			if err := c.beatWithin(ctx, every/2, bucket, p); err != nil {
				c.Log.Warn("presence", "worker", p.Worker, "error", err)
				next = every / presenceRetries // a row that is about to go needs the first moment there is
			}
			t.Reset(next)
		}
	}()
	return gone, nil
}

// beat writes the row once more.
func (c *Conn) beat(ctx context.Context, bucket *Bucket, p Presence) error {
	p.Version, p.At, p.Violations = Version, crumbs.At(time.Now()), c.Violations()
	body, err := json.Marshal(p)
	if err != nil {
		return fault.From(err)
	}
	_, err = bucket.Put(ctx, p.key(), body)
	return err
}

// beatWithin gives a heartbeat up early: one whose answer is lost would use up the
// time in which the row still lives.
func (c *Conn) beatWithin(ctx context.Context, limit time.Duration, bucket *Bucket, p Presence) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return c.beat(ctx, bucket, p)
}

func (c *Conn) withdraw(bucket *Bucket, key string) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	if err := bucket.Delete(ctx, key); err != nil {
		c.Log.Debug("withdraw", "worker", key, "error", err)
	}
}

// aliveLooks is how often a worker that seems gone is looked for: each look asks
// another replica, and one that is behind knows only old heartbeats.
const aliveLooks = 3

// Alive reports whether a worker is present, by the key of its row
// (crumbs.ToolPresence, crumbs.ModelPresence): the row is read and its age
// compared, so that no expiry event is relied on.
func (c *Conn) Alive(ctx context.Context, key string) (bool, error) {
	for range aliveLooks {
		r, err := c.Bucket(crumbs.BucketWorkers).GetDirect(ctx, key)
		if err != nil {
			return false, err
		}
		if r.Exists() && time.Since(r.Stored) < c.Settings.PresenceTTL {
			return true, nil
		}
	}
	return false, nil
}
