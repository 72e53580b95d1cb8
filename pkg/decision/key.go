package decision

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// kidBytes is how much of a public key's SHA-256 names it.
const kidBytes = 8

// encoding is that of keys and signatures: base64url without padding, where a
// value has exactly one text.
var encoding = base64.RawURLEncoding.Strict()

// Key signs decisions. It prints as its id, never as its secret. The zero Key
// signs nothing.
type Key struct{ private ed25519.PrivateKey }

// NewKey returns a fresh key.
func NewKey() Key {
	seed := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(seed) // never fails: crypto/rand ends the process instead
	return Key{ed25519.NewKeyFromSeed(seed)}
}

// IsZero reports whether k is no key.
func (k Key) IsZero() bool { return k.private == nil }

// Public returns the public key in base64url without padding: what a verifier is
// configured with. It is "" for the zero Key.
func (k Key) Public() string {
	if k.IsZero() {
		return ""
	}
	return encoding.EncodeToString(k.public())
}

// ID returns the `kid` of the key: the first 16 hex digits of the SHA-256 of its
// public key. It is "" for the zero Key.
func (k Key) ID() string {
	if k.IsZero() {
		return ""
	}
	return keyID(k.public())
}

func (k Key) public() ed25519.PublicKey { return ed25519.PublicKey(k.private[ed25519.SeedSize:]) }

func keyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:kidBytes])
}

// Format prints the key's id under every verb, so that no log shows a secret.
func (k Key) Format(s fmt.State, _ rune) { _, _ = fmt.Fprintf(s, "decision key %s", k.ID()) }

// Sign sets the kid and the signature of d. It returns DECISION_INVALID, and
// leaves d as it was, when d is no approval.decision or has no canonical form,
// and INVALID_CONFIG for the zero Key.
func (k Key) Sign(d *crumbs.Decision) error {
	if k.IsZero() {
		return fault.New(fault.InvalidConfig, "no key to sign with: expected one from NewKey, LoadSeed or LoadOrCreate")
	}
	signed := *d
	signed.KeyID = k.ID()
	text, err := payload(signed)
	if err != nil {
		return err
	}
	signed.Signature = encoding.EncodeToString(ed25519.Sign(k.private, text))
	*d = signed
	return nil
}
