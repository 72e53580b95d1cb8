package decision

import (
	"crypto/ed25519"
	"maps"
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// KeysMax bounds the keys of one Verifier.
const KeysMax = 64

// contextTrusted names the trusted kids in the Context of an error.
const contextTrusted = "trusted"

// sigPadding may follow a signature of another writer (schemas/); ours have none.
const sigPadding = "=="

// Verifier checks signatures against the keys that are trusted. It is immutable
// and may be used from several goroutines. The zero Verifier trusts no key.
type Verifier struct{ keys map[string]ed25519.PublicKey }

// NewVerifier trusts one or several public keys (Key.Public); several while keys
// are rotated. It returns INVALID_CONFIG when there is none, more than KeysMax,
// or one that is not 32 bytes of base64url.
func NewVerifier(publicKeys ...string) (*Verifier, error) {
	if len(publicKeys) == 0 || len(publicKeys) > KeysMax {
		return nil, fault.New(fault.InvalidConfig, "decision keys: expected 1 to %d public keys, got %d", KeysMax, len(publicKeys))
	}
	v := &Verifier{keys: make(map[string]ed25519.PublicKey, len(publicKeys))}
	for i, text := range publicKeys {
		public, err := encoding.DecodeString(strings.TrimSpace(text))
		if err != nil || len(public) != ed25519.PublicKeySize {
			return nil, fault.New(fault.InvalidConfig, "decision key %d: expected an Ed25519 public key, %d bytes in base64url without padding, as the approvals service prints it", i+1, ed25519.PublicKeySize)
		}
		v.keys[keyID(public)] = public
	}
	return v, nil
}

// IDs returns the kids of the trusted keys, sorted.
func (v *Verifier) IDs() []string { return slices.Sorted(maps.Keys(v.keys)) }

// Verify returns nil when a trusted key signed d as it is, else DECISION_INVALID
// that says whether the key is unknown or the signature wrong.
func (v *Verifier) Verify(d crumbs.Decision) error {
	key, ok := v.keys[d.KeyID]
	if !ok {
		return fault.New(fault.DecisionInvalid, "unknown key: the decision on %s is signed by key %q, expected one of %s; trust its public key or discard the decision",
			d.CheckpointID, d.KeyID, strings.Join(v.IDs(), ", ")).With("kid", d.KeyID).With(contextTrusted, v.IDs())
	}
	text, err := payload(d)
	if err != nil {
		return err
	}
	signature, err := encoding.DecodeString(strings.TrimSuffix(d.Signature, sigPadding))
	if err != nil || !ed25519.Verify(key, text, signature) {
		return fault.New(fault.DecisionInvalid, "bad signature: the decision on %s is not what key %s signed; it was changed or forged", d.CheckpointID, d.KeyID).With("kid", d.KeyID)
	}
	return nil
}

// Untrusted reports whether an error of Verify says that the key is not trusted; else
// its signature is wrong.
func Untrusted(err error) bool {
	_, unknown := fault.From(err).Context[contextTrusted]
	return unknown
}
