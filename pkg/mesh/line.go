package mesh

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Keys of log lines. Every line about a message has subject and delivery, and what
// of run, step, call, attempt and trace the message is about; every line with an
// error has its code.
const (
	KeySubject  = "subject"
	KeyDelivery = "delivery"
	KeyRun      = "run"
	KeyStep     = "step"
	KeyCall     = "call"
	KeyAttempt  = "attempt"
	KeyTrace    = "trace"
	KeyCode     = "code"
)

type deliveryKey struct{}

// about is ctx while a message is worked on: lines that are logged with it say
// which message that is.
func about(ctx context.Context, d *Delivery) context.Context {
	return context.WithValue(ctx, deliveryKey{}, d)
}

// lines is the handler of a connection's log. What a line says of its message is
// made from the message only when there is a line.
type lines struct {
	slog.Handler
	set []string // keys that WithAttrs set
}

// Handle adds what the line is about, but for what it says itself.
func (h lines) Handle(ctx context.Context, r slog.Record) error {
	has := slices.Clone(h.set)
	var cause error
	r.Attrs(func(a slog.Attr) bool {
		has = append(has, a.Key)
		if err, ok := a.Value.Any().(error); ok && cause == nil {
			cause = err
		}
		return true
	})
	add := func(key string, v slog.Value) {
		if !slices.Contains(has, key) {
			r.AddAttrs(slog.Attr{Key: key, Value: v})
		}
	}
	if d, ok := ctx.Value(deliveryKey{}).(*Delivery); ok {
		d.tell(add)
	}
	if at := trace.SpanContextFromContext(ctx); at.IsValid() {
		add(KeyTrace, slog.StringValue(at.TraceID().String()))
	}
	var f *fault.Error
	if errors.As(cause, &f) {
		add(KeyCode, slog.StringValue(string(f.Code)))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs keeps the keys, which a line then has already.
func (h lines) WithAttrs(attrs []slog.Attr) slog.Handler {
	set := slices.Clone(h.set)
	for _, a := range attrs {
		set = append(set, a.Key)
	}
	return lines{h.Handler.WithAttrs(attrs), set}
}

// WithGroup is as of any handler; what is added stands in the group.
func (h lines) WithGroup(name string) slog.Handler { return lines{h.Handler.WithGroup(name), h.set} }

// tell adds what a message is about: by its envelope, else by its subject.
func (d *Delivery) tell(add func(string, slog.Value)) {
	add(KeySubject, slog.StringValue(d.Subject))
	add(KeyDelivery, slog.IntValue(d.Count))
	if run := d.run(); run != "" {
		add(KeyRun, slog.StringValue(run))
	}
	if call, attempt, step := d.call(); call != "" {
		add(KeyCall, slog.StringValue(call))
		add(KeyStep, slog.IntValue(step))
		if attempt > 0 {
			add(KeyAttempt, slog.IntValue(attempt))
		}
	}
	if at := trace.SpanContextFromContext(ExtractTrace(context.Background(), d.Header)); at.IsValid() {
		add(KeyTrace, slog.StringValue(at.TraceID().String()))
	}
}

// run is the run that a message is about, "" when it does not say.
func (d *Delivery) run() string {
	run := hop(d.Header).Get("ce-runid")
	if run == "" {
		run = string(crumbs.RunOf(d.Subject))
	}
	if crumbs.CheckRunID(KeyRun, run) != nil {
		return ""
	}
	return run
}

// call is the call that a message is about: the id of a command and a result is
// `<call>.<attempt>`, that of a decision its checkpoint.
func (d *Delivery) call() (call string, attempt, step int) {
	id := hop(d.Header).Get("ce-id")
	if crumbs.CheckCallID(crumbs.CallID(id)) != nil {
		at := strings.LastIndexByte(id, '.')
		if at < 0 || crumbs.CheckCallID(crumbs.CallID(id[:at])) != nil {
			return "", 0, 0
		}
		n, err := strconv.Atoi(id[at+1:])
		if err != nil {
			return "", 0, 0
		}
		id, attempt = id[:at], n
	}
	parts := strings.Split(id, ".")
	step, _ = strconv.Atoi(parts[len(parts)-2]) // a call id has one
	return id, attempt, step
}
