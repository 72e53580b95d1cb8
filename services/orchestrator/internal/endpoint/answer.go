package endpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/explain"
)

// refusedMax bounds the refused answers of a view, and the rows read for them.
const refusedMax = 100

// answers reads what was answered of the questions that a run waits for, and whose key
// signs when one of them is refused.
func (e *Endpoints) answers(ctx context.Context, f *explain.Facts) error {
	refused := false
	for _, c := range f.State.Calls {
		if c.Phase != core.Asking {
			continue
		}
		d, err := e.decided(ctx, c.ID)
		if err != nil {
			return err
		}
		if d != nil {
			f.Decided[c.ID] = *d
			refused = refused || d.Refused != ""
		}
	}
	if !refused {
		return nil
	}
	signer, err := e.signer(ctx)
	if signer != nil {
		f.Signer = decision.Signer{KeyID: signer.KeyID, Public: signer.Public, At: signer.Since}
	}
	return err
}

// decided returns the answer to a question that is recorded and not applied, nil when
// there is none.
func (e *Endpoints) decided(ctx context.Context, id crumbs.CheckpointID) (*crumbs.RunDecided, error) {
	value, err := e.ofApprovals(ctx, string(id))
	if err != nil || value == nil {
		return nil, err
	}
	var row decision.Approval
	if json.Unmarshal(value, &row) != nil || row.Status != decision.StatusDecided || row.Decision == nil {
		return nil, nil //nolint:nilerr // what is wrong with a row, the approvals service says
	}
	out := &crumbs.RunDecided{Outcome: row.Decision.Outcome, By: row.Decision.By, At: row.Decision.At, KeyID: row.Decision.KeyID}
	if err := e.verify(*row.Decision); err != nil {
		out.Refused, out.Untrusted = clip(fault.From(err).Message, rowErrorMax), decision.Untrusted(err)
	}
	return out, nil
}

func (e *Endpoints) verify(d crumbs.Decision) error {
	if e.Verify == nil {
		return nil
	}
	return e.Verify(d)
}

// signer is whose key signs the decisions of the mesh, nil while nobody's.
func (e *Endpoints) signer(ctx context.Context) (*crumbs.MeshSigner, error) {
	value, err := e.ofApprovals(ctx, decision.SignerRow)
	if err != nil || value == nil {
		return nil, err
	}
	s, err := decision.ReadSigner(value)
	if err != nil {
		return nil, err
	}
	// Nothing that is signed: of it only the key can be told.
	untrusted := decision.Untrusted(e.verify(crumbs.Decision{Type: crumbs.TypeDecision, KeyID: s.KeyID}))
	return &crumbs.MeshSigner{KeyID: s.KeyID, Public: s.Public, Since: s.At, Untrusted: untrusted}, nil
}

// ofApprovals reads a row of the approvals service, nil when there is none, or no
// bucket: the doctor says that by itself.
func (e *Endpoints) ofApprovals(ctx context.Context, key string) ([]byte, error) {
	r, err := e.Conn.Bucket(crumbs.BucketApprovals).Get(ctx, key)
	if fault.CodeOf(err) == fault.TopologyMissing || err == nil && !r.Exists() {
		return nil, nil
	}
	return r.Value, err
}

// refused are the answers among the letters whose questions still wait: the last of
// them first.
func (e *Endpoints) refused(ctx context.Context, letters map[crumbs.CheckpointID]uint64) (out []crumbs.MeshAnswer, err error) {
	last := slices.SortedFunc(maps.Keys(letters), func(a, b crumbs.CheckpointID) int { return cmp.Compare(letters[b], letters[a]) })
	for _, id := range last[:min(len(last), refusedMax)] {
		d, err := e.decided(ctx, id)
		if err != nil {
			return nil, err
		}
		if d != nil && d.Refused != "" {
			out = append(out, crumbs.MeshAnswer{CheckpointID: id, RunID: id.Run(), KeyID: d.KeyID, Untrusted: d.Untrusted})
		}
	}
	return out, nil
}

// decidedIn is the question of a letter that is a decision which was not believed, ""
// of another.
func decidedIn(letter nats.Header) crumbs.CheckpointID {
	if letter.Get(crumbs.DeadCode) != string(fault.DecisionInvalid) {
		return ""
	}
	subject := letter.Get(crumbs.DeadOfSubject)
	run := crumbs.Token(subject, 2)
	place, _ := strings.CutPrefix(crumbs.Token(subject, 3), run+"-")
	id := crumbs.CheckpointID(run + "." + strings.ReplaceAll(place, "-", "."))
	if crumbs.CheckCallID(id) != nil || crumbs.DecisionSubject(id.Run(), id) != subject {
		return ""
	}
	return id
}
