package approvals

import (
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/approvals/internal/worker"
)

// GraceDefault is how long crumbs in hand may take when the service stops; what is not
// done then goes back to another replica at once.
const GraceDefault = 15 * time.Second

// Config is the configuration of the service. All replicas have the same key.
type Config struct {
	// KeyFile is the seed file of the key decisions are signed with; it is read
	// when Key is zero.
	KeyFile string `yaml:"keyFile"`
	// Trust are further public keys (decision.Key.Public): while keys are rotated,
	// the old one, whose decisions may still wait when the rows are rebuilt.
	Trust []string `yaml:"trust"`
	// RepublishEvery is how long a decision waits for its human:resumed before it
	// is published again; 0 = 2 s. The wait doubles up to a minute.
	RepublishEvery time.Duration `yaml:"republishEvery"`
	// Grace is how long crumbs in hand may take when the service stops; GraceDefault
	// when 0.
	Grace time.Duration `yaml:"grace"`

	// Key signs decisions, instead of KeyFile.
	Key decision.Key `yaml:"-"`
	// Ready, when set, is called once the endpoints are served.
	Ready func() `yaml:"-"`
	// Health, when set, receives the readiness check.
	Health func(check func() error) `yaml:"-"`
	// AfterRecord is the fault point of tests: it is called after a decision is
	// recorded and before it is published, and its error ends the request there.
	AfterRecord func(crumbs.CheckpointID) error `yaml:"-"`
}

// complete returns the configuration with its defaults and its key. It returns
// INVALID_CONFIG when there is no usable key or a duration is negative.
func (c Config) complete() (Config, *decision.Verifier, error) {
	if c.RepublishEvery < 0 || c.Grace < 0 {
		return c, nil, fault.New(fault.InvalidConfig, "republishEvery and grace: expected no negative duration, got %s and %s", c.RepublishEvery, c.Grace)
	}
	if c.Grace == 0 {
		c.Grace = GraceDefault
	}
	if c.RepublishEvery == 0 {
		c.RepublishEvery = worker.RepublishEvery
	}
	if c.Key.IsZero() && c.KeyFile == "" {
		return c, nil, fault.New(fault.InvalidConfig, "keyFile: expected the seed file of the key that signs decisions")
	}
	if c.Key.IsZero() {
		key, err := decision.LoadSeed(c.KeyFile)
		if err != nil {
			return c, nil, err
		}
		c.Key = key
	}
	trust, err := decision.NewVerifier(append([]string{c.Key.Public()}, c.Trust...)...)
	return c, trust, err
}
