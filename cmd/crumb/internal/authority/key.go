package authority

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

func (a *Authority) seedFile(role string) string { return a.path("keys", role+".nk") }
func (a *Authority) oldFile(name string) string  { return a.path("keys", name+".old.pub") }

// user returns the public keys of a role, the one in use first, and makes the first.
func (a *Authority) user(role string) ([]string, error) {
	if _, err := os.Stat(a.seedFile(role)); errors.Is(err, fs.ErrNotExist) {
		if err := a.newSeed(role); err != nil {
			return nil, err
		}
	}
	public, err := a.public(role)
	if err != nil {
		return nil, err
	}
	old, err := a.old(role)
	if err != nil || old == "" || old == public {
		return []string{public}, err
	}
	return []string{public, old}, nil
}

func (a *Authority) newSeed(role string) error {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return fault.From(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		return fault.From(err)
	}
	if err := replace(a.seedFile(role), append(seed, '\n'), secretMode); err != nil {
		return unusable(a.Dir, err)
	}
	return nil
}

func (a *Authority) public(role string) (string, error) {
	seed, err := os.ReadFile(a.seedFile(role))
	if err != nil {
		return "", unusable(a.Dir, err)
	}
	pair, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(seed))))
	if err != nil {
		return "", fault.New(fault.InvalidConfig, "%s: expected the seed of an NKEY user; remove the file to have a new one made", a.seedFile(role))
	}
	public, err := pair.PublicKey()
	if err != nil {
		return "", fault.From(err)
	}
	return public, nil
}

// old is the public key that goes with a rotation, "" when there is none.
func (a *Authority) old(name string) (string, error) {
	text, err := os.ReadFile(a.oldFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", unusable(a.Dir, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Rotate gives a role, or the signing of decisions, a new key; the old one is
// believed until Finish. It fails with INVALID_CONFIG when there is no such role, or
// its last rotation is not finished.
func (a *Authority) Rotate(name string) error {
	old, err := a.old(name)
	if err != nil {
		return err
	}
	if old != "" {
		return fault.New(fault.InvalidConfig, "--rotate %s: the last rotation is not finished: when every process has the new key, run it with --finish", name)
	}
	if name == ApprovalsKey {
		return a.rotateApprovals()
	}
	if _, err := a.Mesh().Role(name); err != nil {
		return err
	}
	public, err := a.public(name)
	if err != nil {
		return err
	}
	if err := replace(a.oldFile(name), []byte(public+"\n"), publicMode); err != nil { // first: a key that is in use stays believed
		return unusable(a.Dir, err)
	}
	return a.newSeed(name)
}

func (a *Authority) rotateApprovals() error {
	file := a.path("keys", "approvals.key")
	key, err := decision.LoadSeed(file)
	if err != nil {
		return err
	}
	if err := replace(a.oldFile(ApprovalsKey), []byte(key.Public()+"\n"), publicMode); err != nil {
		return unusable(a.Dir, err)
	}
	if err := os.Remove(file); err != nil {
		return unusable(a.Dir, err)
	}
	_, err = decision.LoadOrCreate(file)
	return err
}

// Finish ends a rotation: the old key is not believed any more.
func (a *Authority) Finish(name string) error {
	err := os.Remove(a.oldFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.InvalidConfig, "--rotate %s --finish: it is not being rotated", name)
	}
	if err != nil {
		return unusable(a.Dir, err)
	}
	return nil
}
