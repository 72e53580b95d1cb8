package tool_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/secret"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

const canary = "s3cr3t-canary"

type text struct {
	Text string `json:"text"`
}

// concealing is a tool that reads its credential and then does what it is told.
func concealing(do func(tool.Context, text) (any, error)) tool.Tool {
	return tool.Define("echo", "Echoes.", func(ctx tool.Context, in text) (any, error) {
		if err := ctx.Conceal("TOKEN", canary); err != nil {
			return nil, err
		}
		return do(ctx, in)
	})
}

// Arguments reach the handler as they came, whatever is in them: what was approved
// is what runs. What it answers is masked.
func TestRun_F159_ArgumentsAreNotMaskedResultsAre(t *testing.T) {
	t.Parallel()
	got := ""
	echo := concealing(func(_ tool.Context, in text) (any, error) {
		got = in.Text
		return map[string]any{in.Text: in, "z": 1}, nil
	})
	result, err := echo.Run(tool.Context{}, json.RawMessage(`{"text":"`+canary+`"}`), nil)
	if err != nil || got != canary || string(result) != `{"[TOKEN]":{"text":"[TOKEN]"},"z":1}` {
		t.Errorf("the handler got %q, the result is %s, %v", got, result, err)
	}
}

func TestRun_F159_ErrorsAndLogsAreMasked(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		do   func(tool.Context, text) (any, error)
		want string
	}{
		"an error": {func(tool.Context, text) (any, error) { return nil, errors.New("401 " + canary) }, "401 [TOKEN]"},
		"a fault": {func(tool.Context, text) (any, error) {
			return nil, fault.New(fault.ToolError, "no %s", canary).With("header", []string{canary})
		}, "no [TOKEN]"},
		"a panic": {func(tool.Context, text) (any, error) { panic(canary) }, "panicked"},
		"of a goroutine": {func(ctx tool.Context, _ text) (any, error) {
			ctx.Go(func() error { return errors.New(canary) })
			return 1, nil
		}, "[TOKEN]"},
		"cut in the middle": {func(tool.Context, text) (any, error) {
			return nil, errors.New(strings.Repeat("x", tool.ErrorMax-5) + canary)
		}, "xx[TOKE…"},
	} {
		var log bytes.Buffer
		ctx := tool.Context{Logger: slog.New(slog.NewJSONHandler(&log, nil))}
		_, err := concealing(func(ctx tool.Context, in text) (any, error) {
			ctx.Logger.Warn("using "+canary, "token", canary)
			return tc.do(ctx, in)
		}).Run(ctx, json.RawMessage(`{"text":""}`), nil)
		raw, _ := json.Marshal(err)
		if !strings.Contains(err.Error(), tc.want) || strings.Contains(string(raw), "s3cr3t") {
			t.Errorf("%s: %s", name, raw)
		}
		if got := log.String(); strings.Contains(got, "s3cr3t") || !strings.Contains(got, "using [TOKEN]") {
			t.Errorf("%s: the log %s", name, got)
		}
	}
}

func TestRun_F159_PartialsAreMasked(t *testing.T) {
	t.Parallel()
	streams := tool.DefineStream("streams", "Streams.", func(ctx tool.Context, _ struct{}) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			err := ctx.Conceal("TOKEN", canary)
			_ = yield("it is "+canary, err) && yield("it is s3cr3t-", nil) && yield("canary!", nil)
		}
	})
	var got []string
	result, err := streams.Run(tool.Context{}, json.RawMessage(`{}`), func(v json.RawMessage) error { got = append(got, string(v)); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{`"it is [TOKEN]"`, `"it is [TOKEN]"`, `"[TOKEN]!"`, string(result)}, append(got, string(result))); d != "" {
		t.Error(d)
	}
}

// Placeholders that make a result too large are told like one that is.
func TestRun_MaskedResultIsBounded(t *testing.T) {
	t.Parallel()
	grows := tool.Define("grows", "Grows.", func(ctx tool.Context, _ struct{}) (string, error) {
		err := ctx.Conceal("A_NAME_THAT_IS_LONGER_THAN_ITS_VALUE", "sixsix")
		return strings.Repeat("sixsix ", tool.ResultMax/8), err
	})
	if _, err := grows.Run(tool.Context{}, json.RawMessage(`{}`), nil); fault.CodeOf(err) != fault.PayloadTooLarge {
		t.Errorf("%v", err)
	}
	_, err := tool.Define("large", "Has a large secret.", func(ctx tool.Context, _ struct{}) (string, error) {
		return "", ctx.Conceal("LARGE", strings.Repeat("x", secret.LengthMax+1))
	}).Run(tool.Context{}, json.RawMessage(`{}`), nil)
	if fault.CodeOf(err) != fault.InvalidConfig || !strings.Contains(err.Error(), "[LARGE]") {
		t.Errorf("%.200v", err)
	}
}

// F096: two calls with another value under the same name, at once: each has its own.
func TestRun_F096_SecretsBelongToTheirCall(t *testing.T) {
	t.Parallel()
	process := secret.NewBook(nil)
	if err := process.Add("PROCESS", "process-secret"); err != nil {
		t.Fatal(err)
	}
	both := make(chan struct{}, 2)
	var meet sync.WaitGroup
	meet.Add(2)
	echo := tool.Define("echo", "Echoes.", func(ctx tool.Context, in text) (string, error) {
		err := ctx.Conceal("TOKEN", in.Text+"-secret")
		meet.Done()
		meet.Wait() // both know theirs
		return "first-secret second-secret process-secret", err
	})
	results := make([]string, 2)
	for i, name := range []string{"first", "second"} {
		go func() {
			result, err := echo.Run(tool.Context{Secrets: secret.NewBook(process)}, json.RawMessage(`{"text":"`+name+`"}`), nil)
			if err != nil {
				t.Error(err)
			}
			results[i] = string(result)
			both <- struct{}{}
		}()
	}
	<-both
	<-both
	if d := cmp.Diff([]string{`"[TOKEN] second-secret [PROCESS]"`, `"first-secret [TOKEN] [PROCESS]"`}, results); d != "" {
		t.Error(d)
	}
	if got := process.Masker().Text("first-secret"); got != "first-secret" {
		t.Error("a call's secret is the process's")
	}
}
