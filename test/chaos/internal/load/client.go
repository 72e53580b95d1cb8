package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	askMax     = 3 * time.Second
	retryPause = 150 * time.Millisecond
)

// Header of a refused request to an endpoint: the code of the fault.
const headerCode = "Nats-Service-Error-Code"

// refusal is an answer that will not change.
type refusal struct {
	code, text string
	settled    bool // it says what became of the question
}

// Error is the refusal in one line.
func (r *refusal) Error() string { return r.code + ": " + r.text }

// repeats does something until it is taken, refused for good, or ctx ends.
func repeats(ctx context.Context, what func(context.Context) error) error {
	for {
		once, cancel := context.WithTimeout(ctx, askMax)
		err := what(once)
		cancel()
		var no *refusal
		if err == nil || errors.As(err, &no) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryPause):
		}
	}
}

// publish stores a body on a stream; a lost ack repeats it.
func publish(ctx context.Context, js jetstream.JetStream, subject string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return repeats(ctx, func(ctx context.Context) error {
		_, err := js.Publish(ctx, subject, text, jetstream.WithRetryAttempts(0))
		return err
	})
}

// request asks an endpoint; what it refuses for good is a refusal.
func request(ctx context.Context, nc *nats.Conn, subject string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return repeats(ctx, func(ctx context.Context) error {
		m, err := nc.RequestWithContext(ctx, subject, text)
		if err != nil {
			return err
		}
		switch code := m.Header.Get(headerCode); code {
		case "":
			return nil
		case "UNAVAILABLE", "SHUTTING_DOWN", "QUEUE_FULL", "INTERNAL_ERROR":
			return fmt.Errorf("%s: %s", code, m.Data)
		default:
			var body struct {
				Context struct {
					Status string `json:"status"`
				} `json:"context"`
			}
			_ = json.Unmarshal(m.Data, &body) // only for what it may say
			return &refusal{code, string(m.Data), body.Context.Status != ""}
		}
	})
}
