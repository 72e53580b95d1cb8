//go:build e2e

package observability_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The alert rules are rules, and fire when they should and not else, says promtool.
func TestE2EPromtool_ChecksAndTestsTheAlerts(t *testing.T) {
	t.Parallel()
	promtool := cmp.Or(os.Getenv("PROMTOOL"), "promtool")
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = filepath.Dir(alertsFile)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
