package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// An application reads what a tool stored by the URI that the run tells.
func TestFile_IsWhatWasStored(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	file, err := f.conn.Files(crumbs.AreaToolFile("desk")).Put(t.Context(), "run_1", "report.txt", "text/plain", strings.NewReader("It is paid.\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.client.File(t.Context(), file.URI); err != nil || string(got) != "It is paid.\n" {
		t.Errorf("%q, %v", got, err)
	}
	for _, uri := range []string{"report.txt", strings.Replace(file.URI, "run_1", "run_2", 1)} {
		if got, err := f.client.File(t.Context(), uri); fault.CodeOf(err) != fault.FileNotFound {
			t.Errorf("%s: %q, %v; want FILE_NOT_FOUND", uri, got, err)
		}
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.client.File(done, file.URI); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
