package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/argument"
)

// shortHash is the length, in hex digits, of the hashes that people read:
// revisions of agents and hashes of announcements.
const shortHash = 16

// fullHash is the length of a whole SHA-256 in hex digits.
const fullHash = 64

// fingerprint is the first n hex digits of the SHA-256 of v's canonical JSON
// (RFC 8785), "" when it has none: a number beyond what RFC 8785 keeps, or a
// raw part that is no JSON.
func fingerprint(v any, n int) string {
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	sum, err := argument.Hash(text)
	if err != nil {
		return ""
	}
	return sum[:n]
}

// exactHash is the hex SHA-256 of v as JSON with sorted keys and numbers as
// written. Unlike RFC 8785 it keeps any number, so that a script may hold one
// that the arguments of a call may not. What is no JSON, and thus no
// checked definition, hashes by the complaint.
func exactHash(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte(err.Error())
	}
	var tree any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if dec.Decode(&tree) == nil {
		text, _ = json.Marshal(tree) // what was decoded always encodes, keys sorted
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
