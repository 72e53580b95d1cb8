package worker

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

const golden = "../../../../schemas/testdata"

// What decode takes without the schema, it reads as the schema's reader does.
func TestDecode_AgreesWithTheSchema(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(golden, "valid", "wire.model.call", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d golden files, %v", len(files), err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var want crumbs.ModelCall
		if err := crumbs.Decode(crumbs.TypeModelCall, body, &want); err != nil {
			t.Fatal(err)
		}
		got, err := decode(body)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", file, err, diff)
		}
	}
}

// A request without one of its required fields is refused as the schema refuses it.
func TestDecode_RefusesWhatIsNotWhole(t *testing.T) {
	t.Parallel()
	body, err := os.ReadFile(filepath.Join(golden, "valid", "wire.model.call", "full.json"))
	if err != nil {
		t.Fatal(err)
	}
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(body, &whole); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"type", "runId", "agentId", "sessionId", "agentRevision", "callId", "step", "attempt", "n", "model", "toolSet", "startBefore", "deadlineAt"} {
		kept := whole[field]
		for _, wrong := range []json.RawMessage{nil, json.RawMessage(`""`), json.RawMessage(`[]`)} {
			if whole[field] = wrong; wrong == nil {
				delete(whole, field)
			}
			tampered, err := json.Marshal(whole)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := decode(tampered); fault.CodeOf(err) != fault.InvalidMessage {
				t.Errorf("%s = %s: %v, want INVALID_MESSAGE", field, wrong, err)
			}
		}
		whole[field] = kept
	}
}
