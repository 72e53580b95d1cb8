package modelgw

import (
	"slices"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// ProviderScript is the provider instance that answers from an agent's script.
const ProviderScript = "script"

// Defaults and bounds of Config.
const (
	SlotsDefault = 64
	SlotsMax     = 10_000
	GraceDefault = 20 * time.Second
)

// Config of a model gateway. The zero value serves the provider script.
type Config struct {
	// Providers are the provider instances of the project to serve; ProviderScript
	// when empty. Each needs its consumer (`crumb init`, `crumb agents apply`).
	// Instances that agents have of their own (crumbs.ProviderOwn) every gateway
	// serves.
	Providers []string
	// Slots is how many calls of one instance run here at a time; SlotsDefault
	// when 0. The instance's maxInFlight bounds all gateways together.
	Slots int
	// Grace is how long calls in hand may go on after the gateway was told to
	// stop; GraceDefault when 0.
	Grace time.Duration
	// Ready is called once every loop serves.
	Ready func()
	// Health, when set, receives the readiness check.
	Health func(check func() error)
}

// complete returns c with its defaults. It fails with INVALID_CONFIG or
// INVALID_NAME.
func (c Config) complete() (Config, error) {
	if len(c.Providers) == 0 {
		c.Providers = []string{ProviderScript}
	}
	for i, p := range c.Providers {
		if err := crumbs.CheckName("provider instance", p); err != nil {
			return c, err
		}
		if p == crumbs.ProviderOwn {
			return c, fault.New(fault.InvalidConfig, "providers: %q stands for instances that agents have of their own, which every gateway serves; leave it out", p)
		}
		if slices.Contains(c.Providers[:i], p) {
			return c, fault.New(fault.InvalidConfig, "providers: %q is named twice; name each instance once", p)
		}
	}
	if c.Slots < 0 || c.Slots > SlotsMax {
		return c, fault.New(fault.InvalidConfig, "slots: expected 1 to %d (0: %d), got %d", SlotsMax, SlotsDefault, c.Slots)
	}
	if c.Grace < 0 {
		return c, fault.New(fault.InvalidConfig, "grace: expected a duration of at least 0 (0: %s), got %s", GraceDefault, c.Grace)
	}
	if c.Slots == 0 {
		c.Slots = SlotsDefault
	}
	if c.Grace == 0 {
		c.Grace = GraceDefault
	}
	if c.Ready == nil {
		c.Ready = func() {}
	}
	return c, nil
}
