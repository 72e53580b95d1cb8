package secret

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
)

// Handler is a slog.Handler that masks messages and attributes on their way to
// next: texts, errors and whatever else prints or encodes a secret. Names of
// attributes and groups are the program's own and stay.
func (b *Book) Handler(next slog.Handler) slog.Handler { return handler{book: b, next: next} }

// Logger is l through Handler.
func (b *Book) Logger(l *slog.Logger) *slog.Logger {
	if b == nil || l == nil {
		return l
	}
	return slog.New(b.Handler(l.Handler()))
}

type handler struct {
	book *Book
	next slog.Handler
}

// Enabled is next's.
func (h handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

// Handle masks a record.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	m := h.book.Masker()
	if m == nil {
		return h.next.Handle(ctx, r)
	}
	masked := slog.NewRecord(r.Time, r.Level, m.Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		masked.AddAttrs(m.attr(a))
		return true
	})
	return h.next.Handle(ctx, masked)
}

// WithAttrs masks what the book knows by now.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	m := h.book.Masker()
	masked := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		masked[i] = m.attr(a)
	}
	return handler{book: h.book, next: h.next.WithAttrs(masked)}
}

// WithGroup is next's.
func (h handler) WithGroup(name string) slog.Handler {
	return handler{book: h.book, next: h.next.WithGroup(name)}
}

func (m *Masker) attr(a slog.Attr) slog.Attr {
	if m == nil {
		return a
	}
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(m.Text(v.String()))
	case slog.KindGroup:
		group := make([]slog.Attr, 0, len(v.Group()))
		for _, inner := range v.Group() {
			group = append(group, m.attr(inner))
		}
		a.Value = slog.GroupValue(group...)
	case slog.KindAny:
		a.Value = m.any(v.Any())
	case slog.KindInt64, slog.KindUint64, slog.KindFloat64:
		if text := v.String(); m.Finds(text) {
			a.Value = slog.StringValue(m.Text(text))
		}
	default: // bools, times and durations hold no secret
		a.Value = v
	}
	return a
}

// any masks a value by what handlers make of it: its text, or its JSON.
func (m *Masker) any(v any) slog.Value {
	text := fmt.Sprintf("%+v", v)
	if raw, ok := v.([]byte); ok {
		text = string(raw)
	}
	if m.Finds(text) {
		return slog.StringValue(m.Text(text))
	}
	if raw, err := json.Marshal(v); err == nil && m.Finds(string(raw)) {
		return slog.StringValue(string(m.JSON(raw)))
	}
	return slog.AnyValue(v)
}
