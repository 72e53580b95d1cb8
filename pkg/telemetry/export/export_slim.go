//go:build slim

package export

import (
	"context"
	"os"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/secret"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry"
)

// Start refuses what a build without the exporters cannot do. `make demo` is
// built so.
func Start(context.Context, string, *secret.Book) (telemetry.Process, error) {
	none := telemetry.Process{Stop: func() {}}
	if name := telemetry.Wanted(os.Getenv); name != "" {
		return none, fault.New(fault.NotAvailable, "%s is set, and this binary was built without the exporters (-tags slim): build it without the tag", name)
	}
	return none, nil
}
