package worker

import (
	"context"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// Handle hands a message to w as its loop would, without acknowledging it.
func (w *Worker) Handle(ctx context.Context, d *mesh.Delivery) error { return w.handle(ctx, d) }

// Admit is what a worker checks of a call before it takes the claim.
func Admit(call crumbs.ToolCall, t tool.Tool, verify func(crumbs.Decision) error) error {
	r := &request{Worker: &Worker{cfg: Config{Verify: verify}}, call: call}
	return r.admit(tool.Context{}, t)
}
