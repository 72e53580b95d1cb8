package approvals

import (
	"context"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/approvals/internal/worker"
)

// GraceDefault is how long crumbs in hand may take when the service stops; what is not
// done then goes back to another replica at once.
const GraceDefault = 15 * time.Second

// Config is the configuration of the service. All replicas have the same key.
type Config struct {
	// KeyFile is the seed file of the key decisions are signed with; it is read
	// when Key is zero, and made when it is not there and the mesh has no key yet.
	KeyFile string `yaml:"keyFile"`
	// Trust are further public keys (decision.Key.Public): while keys are rotated,
	// the old one, whose decisions may still wait when the rows are rebuilt.
	Trust []string `yaml:"trust"`
	// Replaces is the public key of the mesh's signing key whose place this one
	// takes: while keys are rotated, or when the old one is lost. Without it a key
	// that is not the mesh's does not start.
	Replaces string `yaml:"replaces"`
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

// complete returns the configuration with its defaults. It returns INVALID_CONFIG
// when it names no key, a public key that is none, or a negative duration.
func (c Config) complete() (Config, error) {
	if c.RepublishEvery < 0 || c.Grace < 0 {
		return c, fault.New(fault.InvalidConfig, "republishEvery and grace: expected no negative duration, got %s and %s", c.RepublishEvery, c.Grace)
	}
	if c.Grace == 0 {
		c.Grace = GraceDefault
	}
	if c.RepublishEvery == 0 {
		c.RepublishEvery = worker.RepublishEvery
	}
	if c.Key.IsZero() && c.KeyFile == "" {
		return c, fault.New(fault.InvalidConfig, "keyFile: expected the seed file of the key that signs decisions")
	}
	if c.Replaces = strings.TrimSpace(c.Replaces); c.Replaces != "" {
		if _, err := decision.NewVerifier(c.Replaces); err != nil {
			return c, fault.New(fault.InvalidConfig, "replaces: expected the public key of the mesh's signing key, as the approvals service logs it, got %.64q", c.Replaces)
		}
	}
	return c, nil
}

// keys returns the key that signs, which is the mesh's now, and whom this service
// believes. It returns INVALID_CONFIG when the key is another than the mesh's or not
// to be read.
func (c Config) keys(ctx context.Context, conn *mesh.Conn) (decision.Key, *decision.Verifier, error) {
	signer, key := worker.NewSigner(conn), c.Key
	if key.IsZero() {
		var err error
		if key, err = signer.Load(ctx, c.KeyFile); err != nil {
			return key, nil, err
		}
	}
	trust, err := decision.NewVerifier(append([]string{key.Public()}, c.Trust...)...)
	if err != nil {
		return key, nil, err
	}
	if err := signer.Hold(ctx, key, c.Replaces); err != nil {
		return key, nil, err
	}
	conn.Log.InfoContext(ctx, "decisions are signed", "kid", key.ID(), "CRUMB_APPROVALS_PUBKEY", key.Public())
	return key, trust, nil
}

// LoadKey reads the key of a mesh from its seed file, and makes the file when it is
// not there and the mesh has no key yet. It returns INVALID_CONFIG when the file
// cannot be used; errors.Is says fs.ErrNotExist when the mesh has a key and the file
// of it is missing.
func LoadKey(ctx context.Context, conn *mesh.Conn, file string) (decision.Key, error) {
	return worker.NewSigner(conn).Load(ctx, file)
}
