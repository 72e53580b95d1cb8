package worker

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// TestPage_OldestThatFit: whatever order rows come in, a page is the longest
// beginning of them by creation that limit and size allow.
func TestPage_OldestThatFit(t *testing.T) {
	t.Parallel()
	const bytesMax = 8000
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(t, "rows")
		rows := make([]decision.Approval, n)
		for i := range rows {
			size := rapid.SampledFrom([]int{0, 1000, 3000, 5000}).Draw(t, "bytes")
			rows[i] = decision.Approval{RunID: "run_1", CheckpointID: crumbs.ToolCallID("run_1", 1, i), Status: decision.StatusOpen,
				CreatedAt: crumbs.At(time.UnixMilli(int64(i / 2))), Checkpoint: &crumbs.HumanRequired{Base: crumbs.Base{Seq: uint64(i)}, Prompt: strings.Repeat("x", size)}}
		}
		limit := rapid.IntRange(1, 6).Draw(t, "limit")
		p := newPage(limit, bytesMax)
		for _, row := range rapid.Permutation(rows).Draw(t, "order") {
			p.add(row)
		}
		var want []crumbs.CheckpointID
		left := bytesMax
		for _, row := range rows {
			text, err := json.Marshal(row)
			if err != nil {
				t.Fatal(err)
			}
			if left -= len(text) + 1; left < 0 || len(want) == limit {
				break
			}
			want = append(want, row.CheckpointID)
		}
		got := p.reply()
		var ids []crumbs.CheckpointID
		for _, row := range got.Approvals {
			ids = append(ids, row.CheckpointID)
		}
		if !slices.Equal(ids, want) || got.Truncated != (len(want) < n) {
			t.Fatalf("got %v truncated=%t, want %v of %d", ids, got.Truncated, want, n)
		}
	})
}

func TestReadQuery_Refuses(t *testing.T) {
	t.Parallel()
	for body, code := range map[string]fault.Code{
		`[]`: fault.InvalidMessage, `{"status":"pending"}`: fault.InvalidMessage, `{"limit":-1}`: fault.InvalidMessage,
		`{"limit":1001}`: fault.InvalidMessage, `{"runId":"a.b"}`: fault.InvalidName, `{"runId":">"}`: fault.InvalidName,
	} {
		if _, _, err := readQuery(json.RawMessage(body)); fault.CodeOf(err) != code {
			t.Errorf("%s: %v, want %s", body, err, code)
		}
	}
	q, pattern, err := readQuery(json.RawMessage(`{}`))
	if err != nil || q.Limit != decision.ListDefault || pattern != everyRow {
		t.Errorf("%+v %q %v", q, pattern, err)
	}
}

// Rows that an older release wrote, without headers, are listed and surveyed as
// those that have them.
func TestDesk_ListsRowsOfOlderReleases(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i, status := range []decision.Status{decision.StatusOpen, decision.StatusDecided, decision.StatusOpen} {
		id := crumbs.ToolCallID("run_1", 1, i)
		row := decision.Approval{CheckpointID: id, RunID: "run_1", Status: status, CreatedAt: crumbs.At(time.UnixMilli(int64(i)))}
		value, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		w := mesh.Write{Key: string(id), Value: value}
		if i == 2 {
			w.Header = head(row)
		}
		if _, err := b.Register.bucket.Set(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	out, err := b.list(t.Context(), json.RawMessage(`{"status":"open","limit":2}`))
	if err != nil {
		t.Fatal(err)
	}
	page := out.(decision.Page)
	if len(page.Approvals) != 2 || page.Approvals[0].CheckpointID != "run_1.1.0" || page.Approvals[1].CheckpointID != "run_1.1.2" || page.Truncated {
		t.Errorf("%+v", page)
	}
	if err := b.Publisher.Survey(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, due := b.Publisher.due["run_1.1.1"]; !due || len(b.Publisher.due) != 1 {
		t.Errorf("surveyed: %v", b.Publisher.due)
	}
}
