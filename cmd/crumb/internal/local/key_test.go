package local

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// A store keeps its signing key; one whose key file is gone gets no other, in silence,
// that the answers in it were not signed with.
func TestStart_KeyOfTheStore(t *testing.T) {
	t.Parallel()
	cfg := Config{Store: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
	file := filepath.Join(cfg.Store, keyFile)
	public := ""
	for range 2 {
		m, err := Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if public == "" {
			public = m.PublicKey()
		}
		if m.PublicKey() != public {
			t.Errorf("the second start has another key")
		}
		m.Stop()
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), cfg); fault.CodeOf(err) != fault.InvalidConfig || !strings.Contains(err.Error(), cfg.Store) || !strings.Contains(err.Error(), keyFile) {
		t.Errorf("without its key: %v", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a key file was made: %v", err)
	}
	if _, err := decision.LoadOrCreate(file); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), cfg); fault.CodeOf(err) != fault.InvalidConfig {
		t.Errorf("with another key: %v", err)
	}
}
