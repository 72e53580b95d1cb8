package cli

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/terminal"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
)

// The key of a file is made once, and its public key is all that standard output has.
func TestApprovalsKey(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "approvals.key")
	show := func(args ...string) string {
		t.Helper()
		var out, errOut bytes.Buffer
		if status := Main(t.Context(), append([]string{"approvals", "key", file}, args...), terminal.Stdio{In: strings.NewReader(""), Out: &out, Err: &errOut}); status != 0 {
			t.Fatalf("status %d: %s", status, &errOut)
		}
		return out.String()
	}
	first := show()
	key, err := decision.LoadSeed(file)
	if err != nil {
		t.Fatal(err)
	}
	var again signingKey
	if err := json.Unmarshal([]byte(show("--json")), &again); err != nil {
		t.Fatal(err)
	}
	if first != key.Public()+"\n" || again != (signingKey{key.ID(), key.Public()}) {
		t.Errorf("got %q, then %+v, want %s with kid %s", first, again, key.Public(), key.ID())
	}
}
