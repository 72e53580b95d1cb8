package prompt

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// digest is the SHA-256 of a message as it is shown. A message has one wherever it
// stands, so that a transcript whose older part was put aside, or merged, still has
// the digest it had.
type digest [sha256.Size]byte

// After returns what the next prompt of the run should begin with, all of this one,
// and whether this one begins with an earlier one: nil when none is given. The prompt
// is read once: the hash of its first messages is on the way to that of all.
func (p Prompt) After(earlier *crumbs.Prefix) (whole crumbs.Prefix, kept *bool) {
	h := newHasher()
	h.text(p.System)
	h.count(len(p.Tools))
	for _, t := range p.Tools {
		h.text(t.Name)
		h.text(t.Description)
		h.bytes(t.InputSchema)
	}
	if earlier != nil {
		kept = new(bool)
	}
	for n := 0; ; n++ {
		if earlier != nil && n == earlier.Messages {
			*kept = h.hex() == earlier.Hash
		}
		if n == len(p.digests) {
			return crumbs.Prefix{Messages: n, Hash: h.hex()}, kept
		}
		_, _ = h.Write(p.digests[n][:]) // a hash takes everything
	}
}

// digestOf covers all that a message has: a field of crumbs.Part that is left out
// here fails a test.
func digestOf(m crumbs.Message) (d digest) {
	h := newHasher()
	h.text(string(m.Role))
	h.count(len(m.Parts))
	for _, p := range m.Parts {
		for _, s := range [...]string{p.Type, p.Text, p.Provider, string(p.ToolCallID), p.ToolName, p.ProviderCallID, string(p.Outcome)} {
			h.text(s)
		}
		for _, raw := range [...][]byte{p.Raw, p.Args, p.Output} {
			h.bytes(raw)
		}
		if p.File == nil {
			h.count(0)
			continue
		}
		h.count(1)
		for _, s := range [...]string{p.File.Kind, p.File.URI, p.File.MimeType, p.File.Name} {
			h.text(s)
		}
	}
	h.Sum(d[:0])
	return d
}

// hasher writes values so that no two sequences of them look alike.
type hasher struct{ hash.Hash }

func newHasher() hasher { return hasher{sha256.New()} }

func (h hasher) count(n int) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n)) //nolint:gosec // a length
	_, _ = h.Write(b[:])
}

func (h hasher) bytes(b []byte) {
	h.count(len(b))
	_, _ = h.Write(b)
}

func (h hasher) text(s string) { h.bytes([]byte(s)) }

func (h hasher) hex() string { return hex.EncodeToString(h.Sum(nil)) }
