package worker

import (
	"context"
	"encoding/json"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// PublishOrder stores the one order that may wait for an attempt of a call; another
// one being there is success. It fails with SHUTTING_DOWN when ctx ends first.
func PublishOrder(ctx context.Context, conn *mesh.Conn, o crumbs.RunOrder) error {
	data, err := json.Marshal(o)
	if err != nil {
		return fault.From(err)
	}
	short, object, err := conn.Blobs(crumbs.AreaCore).CheckIn(ctx, o.RunID, data, mesh.BaseFields()...)
	if err != nil {
		return err
	}
	ev := crumbs.Event{ID: o.OrderID, Source: crumbs.Source(service), Type: crumbs.CEType(o.Type), Subject: "run/" + string(o.RunID),
		Time: time.Now(), RunID: o.RunID, DataRef: object, Data: short}
	msg, err := ev.Message(crumbs.OrderSubject(o.CallID, o.Attempt))
	if err != nil {
		return err
	}
	mesh.InjectTrace(ctx, msg)
	return conn.PublishOnce(ctx, msg)
}
