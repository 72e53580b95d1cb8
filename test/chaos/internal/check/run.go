package check

import "slices"

// Outcomes of calls that the check tells apart.
const (
	outcomeOK        = "ok"
	outcomeUnknown   = "unknown"
	outcomeCancelled = "cancelled"
	outcomeBlocked   = "blocked"
)

const (
	effectOnce       = "once"
	effectIdempotent = "idempotent"
)

// call is what the crumbs of a run say of one call.
type call struct {
	id       string
	sent     *crumb   // tool:call
	required *crumb   // human:required
	resumed  []crumb  // human:resumed
	outcomes []string // each end it was given
	end      crumb    // that gave the last
}

func (c *call) outcome() string {
	if len(c.outcomes) == 0 {
		return ""
	}
	return c.outcomes[0]
}

// approved returns the hash of the arguments that a person agreed to, "" when
// nobody did.
func (c *call) approved() string {
	for _, r := range c.resumed {
		switch r.Outcome {
		case "approved":
			return c.required.ArgsHash
		case "edited":
			return hash(r.Args)
		}
	}
	return ""
}

// run is what its crumbs say.
type run struct {
	id     string
	crumbs []crumb
	calls  map[string]*call
	order  []string // of calls
}

func (r *run) call(id string) *call {
	c := r.calls[id]
	if c == nil {
		c = &call{id: id}
		r.calls[id] = c
		r.order = append(r.order, id)
	}
	return c
}

// end is the terminal crumb, nil when there is none.
func (r *run) end() *crumb {
	i := slices.IndexFunc(r.crumbs, crumb.terminal)
	if i < 0 {
		return nil
	}
	return &r.crumbs[i]
}

func (r *run) completed() bool {
	end := r.end()
	return end != nil && end.Type == "agent:run:end"
}

func (r *run) cancelled() bool {
	end := r.end()
	return end != nil && end.code() == "RUN_CANCELLED"
}

// take reads one crumb.
func (r *run) take(c crumb) {
	r.crumbs = append(r.crumbs, c)
	settle := func(outcome string) {
		of := r.call(c.ToolCallID)
		of.outcomes, of.end = append(of.outcomes, outcome), c
	}
	switch c.Type {
	case "step:end":
		for _, id := range c.ToolCallIDs {
			r.call(id)
		}
	case "tool:call":
		r.call(c.ToolCallID).sent = &c
	case "tool:result":
		settle(outcomeOK)
	case "tool:error":
		settle(c.Outcome)
	case "tool:blocked":
		settle(outcomeBlocked)
	case "human:required":
		r.call(c.CheckpointID).required = &c
	case "human:resumed":
		of := r.call(c.CheckpointID)
		of.resumed = append(of.resumed, c)
		if c.Outcome != "approved" && c.Outcome != "edited" {
			of.outcomes, of.end = append(of.outcomes, c.Outcome), c
		}
	}
}
