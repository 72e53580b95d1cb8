package decision

import (
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// SignerRow is the key in bucket approvals under which a mesh keeps its Signer. No
// question has it: a checkpoint id has three tokens.
const SignerRow = "_signer"

// Signer says which key signs the decisions of a mesh. The first replica of the
// approvals service writes it; one with another key does not start (ADR 0028).
type Signer struct {
	KeyID    string      `json:"kid"`
	Public   string      `json:"public"`             // Key.Public
	At       crumbs.Time `json:"at"`                 // since when
	Replaced string      `json:"replaced,omitempty"` // kid of the key that signed before
}

// ReadSigner decodes the row SignerRow. It returns INTERNAL_ERROR for what is none.
func ReadSigner(row []byte) (Signer, error) {
	var s Signer
	if err := json.Unmarshal(row, &s); err != nil || s.Public == "" || s.KeyID == "" {
		return Signer{}, fault.Wrap(fault.InternalError, err, "the row %s of bucket %s does not say which key signs decisions", SignerRow, crumbs.BucketApprovals)
	}
	return s, nil
}
