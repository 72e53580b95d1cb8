package otlp

import (
	"context"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/crumbmesh/crumbmesh/pkg/secret"
)

// conceal makes what the exporter authenticates with secrets of the process.
func conceal(env func(string) string, secrets *secret.Book) error {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_HEADERS"} {
		for header := range strings.SplitSeq(env(name), ",") {
			_, value, _ := strings.Cut(header, "=")
			if plain, err := url.PathUnescape(value); err == nil {
				value = plain
			}
			for word := range strings.FieldsSeq(value) { // Bearer, and the token
				if strings.EqualFold(word, "bearer") {
					continue
				}
				if err := secrets.Add(name, word); err != nil {
					return err
				}
			}
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"} {
		u, err := url.Parse(env(name))
		if err != nil || u.User == nil {
			continue
		}
		password, _ := u.User.Password()
		if err := secrets.Add(name, password); err != nil {
			return err
		}
	}
	return nil
}

// masking exports spans in which no secret of the process stands: names, texts of
// attributes and events, and why a span failed.
type masking struct {
	sdktrace.SpanExporter
	secrets *secret.Book
}

// ExportSpans masks and passes on.
func (m masking) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if masker := m.secrets.Masker(); masker != nil {
		masked := make([]sdktrace.ReadOnlySpan, len(spans))
		for i, s := range spans {
			masked[i] = maskedSpan{s, masker}
		}
		spans = masked
	}
	return m.SpanExporter.ExportSpans(ctx, spans)
}

// maskedSpan is a span as the exporter sees it.
type maskedSpan struct {
	sdktrace.ReadOnlySpan
	masker *secret.Masker
}

func (s maskedSpan) Name() string { return s.masker.Text(s.ReadOnlySpan.Name()) }

func (s maskedSpan) Attributes() []attribute.KeyValue {
	return maskedAttributes(s.masker, s.ReadOnlySpan.Attributes())
}

func (s maskedSpan) Status() sdktrace.Status {
	status := s.ReadOnlySpan.Status()
	status.Description = s.masker.Text(status.Description)
	return status
}

func (s maskedSpan) Events() []sdktrace.Event {
	events := append([]sdktrace.Event(nil), s.ReadOnlySpan.Events()...)
	for i := range events {
		events[i].Name = s.masker.Text(events[i].Name)
		events[i].Attributes = maskedAttributes(s.masker, events[i].Attributes)
	}
	return events
}

func maskedAttributes(m *secret.Masker, attrs []attribute.KeyValue) []attribute.KeyValue {
	out := append([]attribute.KeyValue(nil), attrs...)
	for i, a := range out {
		switch a.Value.Type() {
		case attribute.STRING:
			out[i].Value = attribute.StringValue(maskedText(m, a.Value.AsString()))
		case attribute.STRINGSLICE:
			texts := a.Value.AsStringSlice()
			for j := range texts {
				texts[j] = maskedText(m, texts[j])
			}
			out[i].Value = attribute.StringSliceValue(texts)
		}
	}
	return out
}

// maskedText also leaves out the beginning of a secret at the end of a text that
// was cut.
func maskedText(m *secret.Masker, text string) string {
	if len(text) < attributeBytesMax-cutMax {
		return m.Text(text)
	}
	return m.Stream().Write(text)
}

// cutMax is by how much a cut text may be shorter than its limit: a character is
// not cut in two.
const cutMax = 8
