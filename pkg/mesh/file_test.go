package mesh_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// A file is what was stored, for every writer's reader; the same content of a run
// is one file, and of another run another.
func TestFiles_ReadByURIWhoeverStoredThem(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	tools, models := m.Conn.Files(crumbs.AreaToolFile("research")), m.Conn.Files(crumbs.AreaModelFile("script"))
	content := bytes.Repeat([]byte("chart "), 200<<10) // more than one piece
	file, err := tools.Put(t.Context(), "run_1", "chart é.png", "image/png", bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if file.Kind != crumbs.KindFile || file.Name != "chart é.png" || file.MimeType != "image/png" || !strings.HasPrefix(file.URI, "files:tool.research/run_1/") {
		t.Errorf("%+v", file)
	}
	if got, err := models.Get(t.Context(), file.URI); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	again, err := tools.Put(t.Context(), "run_1", "other.png", "", bytes.NewReader(content))
	if err != nil || again.URI != file.URI {
		t.Errorf("%+v, %v: the same content has another URI than %s", again, err, file.URI)
	}
	other, err := tools.Put(t.Context(), "run_2", "other.png", "", bytes.NewReader(content))
	if err != nil || other.URI == file.URI {
		t.Errorf("%+v, %v: two runs share a file", other, err)
	}
	empty, err := models.Put(t.Context(), "run_1", "empty", "", strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tools.Get(t.Context(), empty.URI); err != nil || len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
}

func TestFiles_RefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	files := m.Conn.Files(crumbs.AreaToolFile("research"))
	put := func(name, mimeType string) error {
		_, err := files.Put(t.Context(), "run_1", name, mimeType, strings.NewReader("x"))
		return err
	}
	for _, name := range []string{"", "..", "a/b", `a\b`, "a\nb", "\xff", strings.Repeat("x", 256)} {
		if err := put(name, ""); fault.CodeOf(err) != fault.InvalidName {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for _, mimeType := range []string{"text", "text/", "a b/c", "text/plain; x"} {
		if err := put("a.txt", mimeType); fault.CodeOf(err) != fault.InvalidName {
			t.Errorf("media type %q: %v", mimeType, err)
		}
	}
	if _, err := files.Put(t.Context(), "run_1", "a", "", bytes.NewReader(make([]byte, crumbs.FileBytesMax+1))); fault.CodeOf(err) != fault.PayloadTooLarge {
		t.Errorf("too large: %v", err)
	}
	broken := errors.New("the disk is gone")
	if _, err := files.Put(t.Context(), "run_1", "a", "", iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("a reader that fails: %v", err)
	}
	sum := strings.Repeat("0", 64)
	for _, uri := range []string{"", "files:", "files:tool.research/run_1/" + sum, "files:tool.*/run_1/" + sum, "files:core/run_1/" + sum, "files:tool.research/>/" + sum,
		"files:tool.research/run_1/" + strings.Repeat("x", 64), "https://example.com/a", "files:call.research/run_1/" + sum} {
		if _, err := files.Get(t.Context(), uri); fault.CodeOf(err) != fault.FileNotFound {
			t.Errorf("%q: %v", uri, err)
		}
	}
}
