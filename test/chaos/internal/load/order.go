package load

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

// Answers to a question.
const (
	approve = "approve"
	edit    = "edit"
	reject  = "reject"
)

// order is one run and what the client does about it.
type order struct {
	run      string
	agent    string
	input    json.RawMessage
	endpoint bool // asked at runs.start, else put on the queue
	cancel   time.Duration
	answer   string // of its question
	edited   json.RawMessage
}

// toolCalls is how many calls every agent makes.
const toolCalls = 3

// orders draws runs from a seed.
func orders(seed uint64, prefix string, n int) []order {
	const stream = 0x72756e73 // one of many of the generator
	r := rand.New(rand.NewPCG(seed, stream))
	out := make([]order, n)
	for i := range out {
		cents := 2 + r.IntN(1000)
		o := order{run: fmt.Sprintf("%s%x_%d", prefix, seed, i), endpoint: r.IntN(2) == 0,
			input: json.RawMessage(fmt.Sprintf(`{"place":"p%d","seat":%d,"cents":%d}`, i, i, cents))}
		switch p := r.IntN(100); {
		case p < 45:
			o.agent = "buyer"
		case p < 75:
			o.agent = "stepper"
		default:
			o.agent = "asker"
		}
		switch p := r.IntN(100); {
		case p < 60:
			o.answer = approve
		case p < 80:
			o.answer, o.edited = edit, json.RawMessage(fmt.Sprintf(`{"cents":%d}`, cents-1))
		default:
			o.answer = reject
		}
		if r.IntN(100) < 8 {
			const cancelMaxMs = 900
			o.cancel = time.Duration(1+r.IntN(cancelMaxMs)) * time.Millisecond
		}
		out[i] = o
	}
	return out
}

// asks lists the tools of an agent that need an approval.
func (o order) asks() []string {
	if o.agent == "asker" {
		return []string{"tool_pay"}
	}
	return nil
}
