package secret_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

type credentials struct {
	User  string
	Inner *inner
}

type inner struct{ Password string }

func TestHandler_MasksWhateverIsLogged(t *testing.T) {
	t.Parallel()
	const value = "s3cr3t \"canary\""
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var out bytes.Buffer
		book := book(t, "TOKEN", value, "PIN", "123456")
		log := book.Logger(slog.New(handler(&out)))
		log.With("with", value).WithGroup("group").Info("message "+value,
			"text", value, "error", errors.New("wrong token "+value), "struct", credentials{"ada", &inner{value}},
			"raw", json.RawMessage(`"s3cr3t \"canary\""`), "bytes", []byte(value), "number", 123456, "float", 1.23456e5,
			slog.Group("g", "deep", value), "map", map[string]string{value: value}, "plain", 42, "ok", true)
		got := out.String()
		quoted, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		for _, leak := range []string{value, strings.Trim(string(quoted), `"`), "canary", "123456"} {
			if strings.Contains(got, leak) {
				t.Errorf("%s: %q in %s", name, leak, got)
			}
		}
		if strings.Count(got, "[TOKEN]") < 9 || !strings.Contains(got, "42") || !strings.Contains(got, "plain") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestHandler_LeavesTheRestAlone(t *testing.T) {
	t.Parallel()
	var plain, masked bytes.Buffer
	options := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	write := func(l *slog.Logger) {
		l.With("a", 1).WithGroup("g").Warn("hello", "error", errors.New("none"), "s", credentials{User: "ada"}, "b", []byte("x"), "t", true)
		l.Debug("not enabled")
	}
	write(slog.New(slog.NewJSONHandler(&plain, options)))
	write(book(t, "TOKEN", "s3cr3t-canary").Logger(slog.New(slog.NewJSONHandler(&masked, options))))
	if plain.String() != masked.String() {
		t.Errorf("got  %s\nwant %s", masked.String(), plain.String())
	}
}
