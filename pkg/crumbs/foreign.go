package crumbs

import (
	"regexp"
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// foreignRE is a subject to publish to: no wildcards, none of NATS' own ($…, _INBOX).
var foreignRE = regexp.MustCompile(`^[^\s.*>$_\x00][^\s.*>\x00]*(\.[^\s.*>\x00]+)*$`)

// ownSpaces are the first tokens of the mesh's own subjects.
var ownSpaces = []string{"run", "tool", "model", "approval", "timer", "crumb", "delta", "dead", "blob", "ctl", "crumbmesh"}

// CheckForeignSubject returns INVALID_CONFIG unless subject is one that a hook may
// ask: of at most AttrMax bytes, without wildcards, and of nobody's in the mesh or in
// NATS itself. Whoever writes a file must not be able to forge a command with it.
func CheckForeignSubject(subject string) error {
	first, _, _ := strings.Cut(subject, ".")
	switch {
	case len(subject) > AttrMax || !foreignRE.MatchString(subject):
		return fault.New(fault.InvalidConfig, "subject %q: expected one like hook.audit, without wildcards and not beginning with $ or _", clip(subject, AttrMax))
	case slices.Contains(ownSpaces, first):
		return fault.New(fault.InvalidConfig, "subject %q: %s.… is the mesh's own: use another, such as hook.%s", subject, first, first)
	}
	return nil
}
