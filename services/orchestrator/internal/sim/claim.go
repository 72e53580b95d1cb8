package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// claim is the register that decides whether an attempt starts (pkg/mesh).
type claim struct {
	taken, revoked bool
	nonce, worker  string
	message        uint64
	starts         int
}

// verdict is what a worker may do with a request.
type verdict int

const (
	verdictRun verdict = iota
	verdictDrop
	verdictWait
	verdictUnknown
	verdictPoison
)

// start is what begin needs to know of a request.
type start struct {
	key     string
	message uint64
	effect  crumbs.Effect
	past    bool
}

func (w *world) claimTTL() time.Duration {
	if w.cfg.Rules.LongClaims {
		return claimTTL
	}
	return shortClaimTTL
}

// begin takes the claim of a call, directly before its handler.
func (w *world) begin(t *task, s start) (verdict, error) {
	var found value[claim]
	for {
		if v := w.judge(t, s, found); v != verdictRun {
			return v, nil
		}
		mine := claim{taken: true, nonce: fmt.Sprintf("%s/%d", t.id(), w.planned), worker: t.id(), message: s.message, starts: found.v.starts + 1}
		_, err := t.request("claim "+s.key, func() (any, error) {
			_, err := w.claims.set(s.key, mine, found.revision, w.claimTTL())
			if err == nil {
				w.seen.holders[s.key] = mine.worker
			}
			return nil, err
		})
		if err == nil {
			return verdictRun, nil
		}
		lost := !errors.Is(err, errConflict)
		if found, err = get(t, w.claims, s.key); err != nil {
			return verdictDrop, err
		}
		if lost && w.cfg.Rules.Nonce {
			if found.v.nonce == mine.nonce {
				return verdictRun, nil
			}
			return verdictDrop, errTimeout
		}
	}
}

func (w *world) judge(t *task, s start, found value[claim]) verdict {
	c := found.v
	if found.revision == 0 {
		return verdictRun
	}
	if c.revoked || c.message != s.message {
		return verdictDrop
	}
	lost := s.effect != crumbs.EffectOnce && c.starts >= startsMax
	switch {
	case s.effect != crumbs.EffectOnce && !lost:
		return verdictRun
	case !lost && s.past:
		return verdictUnknown
	case c.worker != t.id() && w.cfg.Rules.HolderLives && w.present(c.worker):
		return verdictWait
	case lost:
		return verdictPoison
	}
	return verdictUnknown
}

// present reports whether a holder's entry in `workers` is still there.
func (w *world) present(id string) bool {
	gone, was := w.gone[id]
	if was && w.now-gone < presenceTTL {
		return true
	}
	p := w.byID[id]
	return p.up && p.id() == id && w.now >= p.pausedUntil
}

// revokeClaim forbids every further start and reports whether there was one.
func (w *world) revokeClaim(t *task, key string) (started bool, err error) {
	for {
		found, err := get(t, w.claims, key)
		if err != nil {
			return false, err
		}
		if found.v.revoked {
			return found.v.starts > 0, nil
		}
		c := found.v
		c.revoked = true
		switch _, err := set(t, w.claims, key, c, found.revision, w.claimTTL()); {
		case err == nil:
			return c.starts > 0, nil
		case !errors.Is(err, errConflict):
			return false, err
		}
	}
}
