package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// natsModules are the modules whose types count as NATS types.
var natsModules = []string{"github.com/nats-io/nats.go", "github.com/nats-io/nats-server/v2"}

// natsHolders are the only folders whose production code may name NATS types,
// with what they need them for. Everything else speaks of subjects and bodies.
var natsHolders = []struct {
	folder string
	why    string
}{
	{"pkg/mesh", "connection, topology, publishing, consuming: the adapter itself, the embedded server in pkg/mesh/embedded"},
	{"pkg/crumbs", "the envelope: a CloudEvent in binary mode is NATS headers and data (ADR 0002)"},
	{"pkg/crumbs/jscrumbs", "fenced publication and following of crumbs"},
	{"pkg/client", "what an application imports: start, follow, resume"},
	{"pkg/tool/worker", "the loop of a tool worker"},
	{"services/approvals/internal/worker", "the loop of a service"},
	{"services/modelgw/internal/worker", "the loop of a service"},
	{"services/orchestrator/internal/worker", "the loop of a service"},
	{"services/orchestrator/internal/registry", "reads the buckets agents and tools"},
	{"services/orchestrator/internal/endpoint", "lists the bucket runs for the request-reply endpoints"},
	{"internal", "test support and tests of the whole"},
	{"services/modelgw/internal/worker/gatewaytest", "test support: a gateway on a mesh of its own"},
	{"bench", "measures NATS beside the mesh"},
	{"test/chaos", "reads streams past every reader of ours"},
}

// exact are holders that stand for one package, not for what lies below it.
var exact = []string{"pkg/crumbs"}

func holdsNATS(dir string) bool {
	for _, h := range natsHolders {
		if dir == h.folder || (!slices.Contains(exact, h.folder) && below(dir, h.folder)) {
			return true
		}
	}
	return false
}

// NATS keeps NATS types in the adapters. Tests may speak NATS: they check what
// really stands on the streams.
func NATS(t *Tree) []string {
	var out []string
	for _, f := range t.Files {
		if f.Test || holdsNATS(f.Dir) {
			continue
		}
		for _, i := range f.Imports {
			for _, module := range natsModules {
				if i.Path == module || strings.HasPrefix(i.Path, module+"/") {
					out = append(out, fmt.Sprintf("%s: %s names NATS types; only the folders of natsHolders may", f.at(i.Pos), f.Dir))
				}
			}
		}
	}
	return out
}
