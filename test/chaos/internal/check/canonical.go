package check

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// canonical is the RFC 8785 form of a document whose numbers are integers and
// whose texts are ASCII, which those of this suite are.
func canonical(doc json.RawMessage) string {
	in := json.NewDecoder(bytes.NewReader(doc))
	in.UseNumber()
	var value any
	if err := in.Decode(&value); err != nil {
		return "no JSON: " + string(doc)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return "no JSON: " + string(doc)
	}
	return string(bytes.TrimSpace(out.Bytes()))
}

func hash(doc json.RawMessage) string {
	sum := sha256.Sum256([]byte(canonical(doc)))
	return hex.EncodeToString(sum[:])
}
