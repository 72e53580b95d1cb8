package mesh

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Claim is the register that decides whether an attempt of a call starts:
// none → started → revoked, and back from started to released when its worker
// gives the start back (docs/protocol.md).
type Claim struct {
	State      string      `json:"state"` // started, released or revoked
	Nonce      string      `json:"nonce,omitempty"`
	Worker     string      `json:"worker,omitempty"`
	MessageSeq uint64      `json:"messageSeq,omitempty"`
	Starts     int         `json:"starts"`
	At         crumbs.Time `json:"at"`
}

// Claim states.
const (
	ClaimStarted  = "started"
	ClaimReleased = "released" // like none, but that earlier starts still count
	ClaimRevoked  = "revoked"
)

// StartsMax is how often a call may be started and not finish before it counts
// as poison.
const StartsMax = 3

// Writing again a claim whose write got no answer: about two minutes of tries.
const (
	setTries   = 60
	setWaitMax = 2 * time.Second
)

// Verdict is what a worker may do with a request.
type Verdict int

// The verdicts of Begin.
const (
	VerdictRun     Verdict = iota // the claim is this worker's: run
	VerdictDrop                   // a second request, or one that was revoked
	VerdictWait                   // its holder is still there
	VerdictUnknown                // a `once` call whose holder is gone
	VerdictPoison                 // started StartsMax times and never finished
)

// Claims is the bucket of claims.
type Claims struct {
	conn   *Conn
	bucket *Bucket
}

// Claims returns the register of starts.
func (c *Conn) Claims() *Claims { return &Claims{conn: c, bucket: c.Bucket(crumbs.BucketClaims)} }

// Start is what Begin needs to know of a request.
type Start struct {
	Key        string // crumbs.ToolClaim, crumbs.ModelClaim
	Worker     string
	MessageSeq uint64
	Effect     crumbs.Effect
	Past       bool                                                   // the call's deadline is over
	Alive      func(ctx context.Context, worker string) (bool, error) // whether a holder is present
}

// Hold is the start that Begin wrote: what GiveBack takes back.
type Hold struct {
	key      string
	claim    Claim
	revision uint64
}

// Starts is how often the attempt was started, this start included.
func (h *Hold) Starts() int { return h.claim.Starts }

// Begin takes the claim of a call, directly before its handler. A write whose fate
// is open is made again: the refusal of the second proves that a claim is stored,
// and its nonce says whose. It fails with UNAVAILABLE when NATS does not answer:
// then nothing may be run. The Hold is set with VerdictRun.
func (c *Claims) Begin(ctx context.Context, s Start) (Verdict, *Hold, error) {
	var found Claim // most requests are the first: write at once, read when refused
	var rev uint64
	for {
		verdict, err := judge(ctx, s, found)
		if err != nil || verdict != VerdictRun {
			return verdict, nil, err
		}
		mine := Claim{State: ClaimStarted, Nonce: uuid.NewString(), Worker: s.Worker, MessageSeq: s.MessageSeq, Starts: found.Starts + 1, At: crumbs.At(time.Now())}
		if found, rev, err = c.set(ctx, s.Key, mine, rev, setTries); err != nil {
			return VerdictDrop, nil, err
		}
		if found.State == ClaimStarted && found.Nonce == mine.Nonce {
			return VerdictRun, &Hold{s.Key, found, rev}, nil
		}
	}
}

// GiveBack takes a start back that came to nothing: its worker stops, and another
// one may begin as if this one never had. Only who knows that the handler of a
// `once` call was not entered may do that; any other call may run again anyway.
// It reports false when the claim is not this start's any more: the call was
// revoked, and its run waits for the outcome, or another worker took it over. It
// fails with UNAVAILABLE or SHUTTING_DOWN when NATS does not answer: the start
// then counts.
func (c *Claims) GiveBack(ctx context.Context, h *Hold) (bool, error) {
	free := h.claim
	free.State, free.Starts, free.At = ClaimReleased, h.claim.Starts-1, crumbs.At(time.Now())
	found, _, err := c.set(ctx, h.key, free, h.revision, setTries)
	return err == nil && found.State == ClaimReleased && found.Nonce == h.claim.Nonce, err
}

// set writes a claim over that of a revision and returns what stands then, with
// its revision. Who gave up while the write's fate is open, and met the claim
// again, would take it for that of a call that started: so it is tried many times.
func (c *Claims) set(ctx context.Context, key string, claim Claim, revision uint64, tries int) (Claim, uint64, error) {
	for try := 1; ; try++ {
		written, err := c.write(ctx, key, claim, revision)
		if err == nil {
			return claim, written, nil
		}
		if errors.Is(err, ErrConflict) {
			return c.above(ctx, key, revision)
		}
		if try >= tries {
			return Claim{}, 0, err
		}
		if err := sleep(ctx, min(nakMin<<min(try, 5), setWaitMax)); err != nil {
			return Claim{}, 0, err
		}
	}
}

// judge is the rule (P4, P7, P12 of docs/protocol.md) for a request that finds a claim. A holder that
// is present is waited for whatever the effect before the call is called lost.
func judge(ctx context.Context, s Start, found Claim) (Verdict, error) {
	switch {
	case found.State == "", found.State == ClaimReleased:
		return VerdictRun, nil
	case found.State == ClaimRevoked, found.MessageSeq != s.MessageSeq:
		return VerdictDrop, nil
	}
	poison := s.Effect != crumbs.EffectOnce && found.Starts >= StartsMax
	if s.Effect != crumbs.EffectOnce && !poison {
		return VerdictRun, nil
	}
	if !poison && s.Past {
		return VerdictUnknown, nil
	}
	alive, err := s.Alive(ctx, found.Worker)
	switch {
	case err != nil:
		return VerdictWait, err
	case alive:
		return VerdictWait, nil
	case poison:
		return VerdictPoison, nil
	}
	return VerdictUnknown, nil
}

// Get reads a claim; State "" means none.
func (c *Claims) Get(ctx context.Context, key string) (Claim, error) {
	claim, _, err := c.read(ctx, key)
	return claim, err
}

// Revoke forbids every further start of an attempt and reports whether it was
// started before. It may be repeated: the answer stays the same.
func (c *Claims) Revoke(ctx context.Context, key string) (started bool, err error) {
	found, rev, err := c.read(ctx, key)
	for err == nil && found.State != ClaimRevoked {
		found.State, found.At = ClaimRevoked, crumbs.At(time.Now())
		found, rev, err = c.set(ctx, key, found, rev, 1)
	}
	return err == nil && found.Starts > 0, err
}

// RevokeUnstarted forbids every start of an attempt that has not started; a started
// one is left as it is and returned.
func (c *Claims) RevokeUnstarted(ctx context.Context, key string) (Claim, error) {
	found, rev, err := c.read(ctx, key)
	for err == nil && (found.State == "" || found.State == ClaimReleased) {
		found.State, found.At = ClaimRevoked, crumbs.At(time.Now())
		found, rev, err = c.set(ctx, key, found, rev, 1)
	}
	return found, err
}

// read asks any replica: a claim it shows was true, and the compare-and-set on it
// tells whether it still is.
func (c *Claims) read(ctx context.Context, key string) (Claim, uint64, error) {
	r, err := c.bucket.GetDirect(ctx, key)
	return decodeClaim(r, err)
}

// above reads a claim that was written after revision.
func (c *Claims) above(ctx context.Context, key string, revision uint64) (Claim, uint64, error) {
	r, err := c.bucket.getAbove(ctx, key, revision)
	return decodeClaim(r, err)
}

func decodeClaim(r Record, err error) (Claim, uint64, error) {
	if err != nil || !r.Exists() {
		return Claim{}, r.Revision, err
	}
	var claim Claim
	if err := json.Unmarshal(r.Value, &claim); err != nil {
		return Claim{}, 0, fault.Wrap(fault.InternalError, err, "claim %s does not decode", r.Key)
	}
	return claim, r.Revision, nil
}

func (c *Claims) write(ctx context.Context, key string, claim Claim, revision uint64) (uint64, error) {
	body, err := json.Marshal(claim)
	if err != nil {
		return 0, fault.From(err)
	}
	return c.bucket.CompareAndSet(ctx, key, body, revision, 0)
}
