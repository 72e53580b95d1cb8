package endpoint

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// However many rows there are and in whatever order they come, the newest are kept.
func TestRunPage_KeepsTheNewest(t *testing.T) {
	t.Parallel()
	const rows, limit = 1000, 7
	page := runPage{limit: limit}
	for i := range rows {
		at := (i * 381) % rows // every time once, in no order
		page.add(crumbs.RunView{RunID: crumbs.RunID(strconv.Itoa(at)), StartedAt: crumbs.At(time.UnixMilli(int64(at)))})
		if len(page.rows) > 2*limit {
			t.Fatalf("%d rows are held", len(page.rows))
		}
	}
	got := page.reply()
	if len(got.Runs) != limit || !got.Truncated {
		t.Fatalf("%d runs, truncated %v", len(got.Runs), got.Truncated)
	}
	for i, v := range got.Runs {
		if want := crumbs.RunID(strconv.Itoa(rows - 1 - i)); v.RunID != want {
			t.Errorf("row %d is %s, want %s", i, v.RunID, want)
		}
	}
}

// A row is small whatever the run's error says, so that a full list fits a reply.
func TestRow_IsSmall(t *testing.T) {
	t.Parallel()
	s := core.State{Result: &core.Result{Error: fault.New(fault.RunCancelled, "%s", strings.Repeat("é", 100_000)).With("big", strings.Repeat("x", 100_000))}}
	body, err := json.Marshal(row(s))
	if err != nil || len(body) > 2<<10 {
		t.Errorf("a row has %d bytes, %v", len(body), err)
	}
}
