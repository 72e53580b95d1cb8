package worker_test

import (
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

// F156: a call runs with the version of the tool that it was made for, as long as its
// worker has it; only the one of now is announced, also of a tool that is no more.
func TestWorker_F156_EarlierVersionsOfATool(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		old := counting("pay", crumbs.EffectOnce, double)
		now := counting("pay", crumbs.EffectOnce, double, tool.Timeout(time.Second))
		gone := counting("refund", crumbs.EffectPure, double)
		l.serve(worker.Config{Name: "w1", Earlier: []tool.Tool{old.Tool, gone.Tool, now.Tool}}, now.Tool)
		for i, c := range []tool.Tool{old.Tool, now.Tool, gone.Tool} {
			req := call(t, c, `{"n":1}`)
			req.CallID = crumbs.ToolCallID(run, 1, i)
			l.send(req)
			if r := l.result(); r.Status != crumbs.StatusOK {
				t.Errorf("call %d: %+v", i, r)
			}
		}
		old.want(t, 1)
		now.want(t, 1)
		gone.want(t, 1)
		if n := l.messages("KV_"+crumbs.BucketTools, ">"); n != 1 {
			t.Errorf("%d announcements", n)
		}
		l.settled()
	})
}
