package argument

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/gowebpki/jcs"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Canonical returns the RFC 8785 form of doc: keys sorted, no white space,
// numbers as ECMAScript writes them. Documents of different value have
// different forms; to keep that true it returns INVALID_ARGUMENTS, naming the
// path, for an integer beyond ±(2^53-1) and for a number that float64 cannot
// keep ("send it as a string"), as well as for anything the strict reader
// refuses: bad syntax, duplicate keys, lone surrogates, depth or size.
func Canonical(doc json.RawMessage) ([]byte, error) {
	if _, p := document(doc, true); p != nil {
		return nil, fault.New(fault.InvalidArguments, "%s", p.text).With("path", p.path)
	}
	text, err := jcs.Transform(doc)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidArguments, err, "invalid JSON: it has no canonical form (RFC 8785)")
	}
	return text, nil
}

// Hash returns the lowercase hex SHA-256 of Canonical(doc): the `argsHash` an
// approval is bound to, and the identity of a call for loop detection. It does
// not depend on key order, white space or spelling of escapes and numbers. It
// returns what Canonical returns.
func Hash(doc json.RawMessage) (string, error) {
	text, err := Canonical(doc)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
