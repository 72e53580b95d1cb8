package secret

import (
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Fault returns f with its message and context masked, f itself when there is no
// secret in it. Its cause stays what it is: that never leaves the process.
func (m *Masker) Fault(f *fault.Error) *fault.Error {
	if m == nil || f == nil {
		return f
	}
	c := *f
	c.Message = m.Text(f.Message)
	if raw, err := json.Marshal(f.Context); err == nil && len(f.Context) > 0 {
		if masked := m.JSON(raw); string(masked) != string(raw) {
			c.Context = nil
			if json.Unmarshal(masked, &c.Context) != nil {
				c.Context = map[string]any{"masked": true}
			}
		}
	}
	return &c
}
