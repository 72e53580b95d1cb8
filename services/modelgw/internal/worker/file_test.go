package worker_test

import (
	"context"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/turn"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/worker/gatewaytest"
)

func makes(files ...turn.File) *adapter {
	return &adapter{play: func(_ context.Context, _ crumbs.ModelCall, yield func(turn.Event, error) bool) {
		yield(turn.Event{Kind: turn.Done, Answer: &turn.Answer{Files: files}}, nil)
	}}
}

func TestWorker_FilesOfAProvider(t *testing.T) {
	t.Parallel()
	b := gatewaytest.Start(t)
	answer := func(run crumbs.RunID, a *adapter) gatewaytest.Answer {
		t.Helper()
		if err := handler(t, b, a)(context.Background(), delivery(b, gatewaytest.Call(run), 1)); err != nil {
			t.Fatal(err)
		}
		return b.Result()
	}
	r := answer("run_1", makes(turn.File{Data: []byte("a")}, turn.File{Name: "b.txt", Data: []byte("b")}))
	if r.Status != crumbs.StatusOK || len(r.Message.Parts) != 2 || r.Message.Parts[0].File.Name != "file_1" || r.Message.Parts[1].File.Name != "b.txt" {
		t.Errorf("%+v %+v", r.ModelResult, r.Message)
	}
	if r := answer("run_2", makes(make([]turn.File, crumbs.FilesMax+1)...)); code(r) != fault.ModelError || r.Retryable || !strings.Contains(r.Error.Message, "65 files") {
		t.Errorf("too many: %+v", r.Error)
	}
	if r := answer("run_3", makes(turn.File{Name: "../b", Data: []byte("b")})); code(r) != fault.InvalidName || r.Retryable {
		t.Errorf("no name: %+v", r.Error)
	}
	if r := answer("run_4", makes(turn.File{Name: "b", Data: make([]byte, crumbs.FileBytesMax+1)})); code(r) != fault.PayloadTooLarge || r.Retryable {
		t.Errorf("too large: %+v", r.Error)
	}
}
