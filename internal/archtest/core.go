package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// coreFolder is the run machine: pure, so that a transcript says everything.
const coreFolder = "services/orchestrator/internal/core"

// impure are packages that bring clocks, chance or the outside world in.
var impure = []string{
	"crypto/rand", "math/rand", "math/rand/v2", "net", "net/http", "os", "os/exec", "io/fs", "log", "log/slog",
	"sync", "sync/atomic", "context", "runtime", "syscall", "github.com/google/uuid",
}

// clocks are the functions of package time that look at a clock.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// Core keeps NATS, clocks, chance and I/O out of the run machine.
func Core(t *Tree) []string {
	var out []string
	for _, f := range t.Files {
		if f.Test || !below(f.Dir, coreFolder) {
			continue
		}
		for _, i := range f.Imports {
			nats := slices.ContainsFunc(natsModules, func(m string) bool { return strings.HasPrefix(i.Path, m) })
			if nats || slices.Contains(impure, i.Path) {
				out = append(out, fmt.Sprintf("%s: the run machine is pure; %s is not", f.at(i.Pos), i.Path))
			}
		}
		ast.Inspect(f.Tree, func(n ast.Node) bool {
			if s, ok := selector(n, "time"); ok && slices.Contains(clocks, s.Sel.Name) {
				out = append(out, fmt.Sprintf("%s: time.%s in the run machine; time comes with the event", f.at(s.Pos()), s.Sel.Name))
			}
			return true
		})
	}
	return out
}

// selector is n as pkg.Name.
func selector(n ast.Node, pkg string) (*ast.SelectorExpr, bool) {
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return nil, false
	}
	x, ok := s.X.(*ast.Ident)
	return s, ok && x.Name == pkg
}
