package worker

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// Signer is the row that says which key signs the decisions of this mesh. It is
// written by compare-and-set only, by the first replica and by a key that is told
// whose place it takes.
type Signer struct {
	conn   *mesh.Conn
	bucket *mesh.Bucket
}

// NewSigner returns a handle.
func NewSigner(conn *mesh.Conn) *Signer {
	return &Signer{conn: conn, bucket: conn.Bucket(crumbs.BucketApprovals)}
}

// read returns the row, zero when there is none, and the revision to write after.
func (s *Signer) read(ctx context.Context) (decision.Signer, uint64, error) {
	record, err := s.bucket.Get(ctx, decision.SignerRow)
	if err != nil || !record.Exists() {
		return decision.Signer{}, record.Revision, err
	}
	row, err := decision.ReadSigner(record.Value)
	return row, record.Revision, err
}

// Load reads the key from its seed file. Only for a mesh that has no key yet it
// makes the file when it is not there: any other new key would sign what nobody
// believes. It returns INVALID_CONFIG, of which errors.Is says fs.ErrNotExist when
// the file of the mesh's key is missing.
func (s *Signer) Load(ctx context.Context, file string) (decision.Key, error) {
	key, err := decision.LoadSeed(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	current, _, readErr := s.read(ctx)
	if readErr != nil {
		return decision.Key{}, readErr
	}
	if current.Public != "" {
		return decision.Key{}, fault.Wrap(fault.InvalidConfig, err,
			"there is no seed file %s, and none was made: the decisions of this mesh are signed with key %s (public key %s) since %s. Put the file of that key there; if it is lost, make another with `crumb approvals key FILE` and start with --replaces=%s, once orchestrators and workers believe the new one",
			file, current.KeyID, current.Public, clock(current.At), current.Public).With("kid", current.KeyID)
	}
	return decision.LoadOrCreate(file)
}

// Hold makes key the one of this mesh when it has none, or replaces is the public
// key of the one it has. It returns INVALID_CONFIG when another key is this mesh's:
// what is signed with this one, nobody would believe.
func (s *Signer) Hold(ctx context.Context, key decision.Key, replaces string) error {
	for range conflictsMax {
		current, revision, err := s.read(ctx)
		if err != nil || current.Public == key.Public() {
			return err
		}
		if current.Public != "" && current.Public != replaces {
			return another(current, key)
		}
		value, err := json.Marshal(decision.Signer{KeyID: key.ID(), Public: key.Public(), At: crumbs.At(time.Now()), Replaced: current.KeyID})
		if err != nil {
			return fault.From(err)
		}
		_, err = s.bucket.CompareAndSet(ctx, decision.SignerRow, value, revision, 0)
		if err == nil {
			s.conn.Log.InfoContext(ctx, "decisions of this mesh are signed with this key from now on", "kid", key.ID(), "instead", current.KeyID)
			return nil
		}
		if !errors.Is(err, mesh.ErrConflict) {
			return err
		}
	}
	return fault.New(fault.Unavailable, "the row %s of bucket %s is written by too many at once; try again", decision.SignerRow, crumbs.BucketApprovals)
}

func another(current decision.Signer, key decision.Key) error {
	return fault.New(fault.InvalidConfig,
		"expected the signing key of this mesh, %s (public key %s, since %s), got key %s (public key %s): nobody would believe what it signs. Start with the key file of the other replicas; if this key is to replace theirs, give its public key to orchestrators and workers (--approvals-pubkey), then start with --replaces=%s",
		current.KeyID, current.Public, clock(current.At), key.ID(), key.Public(), current.Public).With("kid", key.ID()).With("expected", current.KeyID)
}

func clock(t crumbs.Time) string { return t.UTC().Format(time.RFC3339) }
