package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

type none = struct{}

// after waits in the bubble's time, or until the call is interrupted.
func after(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestRun_F043_PanicAndGoexitEndOnlyTheirCall(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	sibling := tool.Define("sibling", "d", func(tool.Context, none) (string, error) { <-release; return "ok", nil })
	type answer struct {
		result string
		err    error
	}
	siblings := make(chan answer, 2)
	for range 2 {
		go func() {
			r, err := sibling.Run(tool.Context{Context: t.Context()}, json.RawMessage(`{}`), nil)
			siblings <- answer{string(r), err}
		}()
	}
	for name, h := range map[string]func(ctx tool.Context, _ none) (int, error){
		"panic":   func(tool.Context, none) (int, error) { panic("secret-42") },
		"nil map": func(tool.Context, none) (int, error) { var m map[string]int; m["x"] = 1; return 0, nil }, //nolint:govet,staticcheck // the nil map is the test
		"Goexit":  func(tool.Context, none) (int, error) { runtime.Goexit(); return 0, nil },
		"panic in a goroutine": func(ctx tool.Context, _ none) (int, error) {
			ctx.Go(func() error { panic("secret-42") })
			return 1, nil
		},
		"Goexit in a goroutine": func(ctx tool.Context, _ none) (int, error) {
			ctx.Go(func() error { runtime.Goexit(); return nil })
			return 1, nil
		},
		"nil fault": func(tool.Context, none) (int, error) { var f *fault.Error; return 0, f },
	} {
		_, _, err := run(t, tool.Define("a", "d", h), `{}`)
		if f := wantFault(t, err, fault.ToolError); strings.Contains(f.Message, "secret") {
			t.Errorf("%s: message %q shows what was panicked with", name, f.Message)
		}
	}
	iterator := tool.DefineStream("a", "d", func(tool.Context, none) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) { yield(1, nil); panic("late") }
	})
	_, partials, err := run(t, iterator, `{}`)
	wantFault(t, err, fault.ToolError)
	if len(partials) != 1 {
		t.Errorf("partials %q", partials)
	}
	close(release)
	for range 2 {
		if a := <-siblings; a.err != nil || a.result != `"ok"` {
			t.Errorf("a sibling ended with %+v", a)
		}
	}
}

func TestContextGo_ErrorFailsAndCancels(t *testing.T) {
	t.Parallel()
	broken := errors.New("index is down")
	tl := tool.Define("a", "d", func(ctx tool.Context, _ none) (int, error) {
		ctx.Go(func() error { return broken })
		<-ctx.Done() // the failure of one part stops the others
		return 0, ctx.Err()
	})
	_, _, err := run(t, tl, `{}`)
	wantFault(t, err, fault.ToolError, "index is down")
}

func TestContextGo_CallEndsAfterIts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := false
		tl := tool.Define("a", "d", func(ctx tool.Context, _ none) (int, error) {
			ctx.Go(func() error { err := after(ctx, time.Minute); ended = true; return err })
			return 7, nil
		})
		if got, _, err := run(t, tl, `{}`); err != nil || got != "7" || !ended {
			t.Errorf("got %s, %v, goroutine ended: %v", got, err, ended)
		}
	})
}

// chunks yields n values, one each d.
func chunks(n int, d time.Duration) func(tool.Context, none) iter.Seq2[int, error] {
	return func(ctx tool.Context, _ none) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for i := range n {
				if err := after(ctx, d); err != nil {
					yield(0, err)
					return
				}
				if !yield(i, nil) {
					return
				}
			}
		}
	}
}

func TestRun_F037_IdleAndTotalLimit(t *testing.T) {
	t.Parallel()
	limits := []tool.Option{tool.Timeout(10 * time.Second), tool.IdleTimeout(time.Second)}
	for name, tc := range map[string]struct {
		n     int
		every time.Duration
		limit string // "" = ends well
		after time.Duration
	}{
		"lively":       {10, 500 * time.Millisecond, "", 5 * time.Second},
		"silent":       {1, 2 * time.Second, "idle", time.Second},
		"lively, long": {100, 500 * time.Millisecond, "total", 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, _, err := run(t, tool.DefineStream("a", "d", chunks(tc.n, tc.every), limits...), `{}`)
				if took := time.Since(start); took != tc.after {
					t.Errorf("took %v, want %v", took, tc.after)
				}
				if tc.limit == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				f := wantFault(t, err, fault.ToolTimeout, "10s", "1s")
				if f.Context["limit"] != tc.limit {
					t.Errorf("limit %v", f.Context["limit"])
				}
			})
		})
	}
}

// The reader's pace is not the tool's silence.
func TestRun_F037_SlowReaderIsNotIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tl := tool.DefineStream("a", "d", chunks(3, time.Millisecond), tool.IdleTimeout(time.Second))
		ctx := tool.Context{Context: t.Context()}
		_, err := tl.Run(ctx, json.RawMessage(`{}`), func(json.RawMessage) error { return after(ctx, 5*time.Second) })
		if err != nil {
			t.Error(err)
		}
	})
}

func TestRun_F038_PlaceholderAfterALimitIsNoSuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tl := tool.Define("a", "d", func(ctx tool.Context, _ none) (string, error) {
			<-ctx.Done()
			return "(no response)", nil
		}, tool.Timeout(time.Second))
		_, _, err := run(t, tl, `{}`)
		wantFault(t, err, fault.ToolTimeout, "total limit of 1s")
	})
}

func TestRun_LimitsOfTheCallWin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tl := tool.DefineStream("a", "d", chunks(1, time.Hour), tool.Timeout(time.Minute), tool.IdleTimeout(50*time.Second))
		ctx := tool.Context{Context: t.Context(), Timeout: 2 * time.Second, IdleTimeout: 3 * time.Second}
		_, _, err := runIn(t, ctx, tl, `{}`)
		wantFault(t, err, fault.ToolTimeout, "total limit of 2s", "idle limit 3s")

		deadline, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ctx.Context = deadline
		_, _, err = runIn(t, ctx, tl, `{}`)
		wantFault(t, err, fault.ToolTimeout, "deadline", "2s")
	})
}

func TestRun_CancelledCall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cause error
		h     func(tool.Context, none) (string, error)
		code  fault.Code // "" = believed
	}{
		"gives up":     {nil, func(ctx tool.Context, _ none) (string, error) { <-ctx.Done(); return "", ctx.Err() }, fault.ToolCancelled},
		"with a cause": {fault.New(fault.ToolCancelled, "the run was cancelled"), func(ctx tool.Context, _ none) (string, error) { <-ctx.Done(); return "", ctx.Err() }, fault.ToolCancelled},
		"own fault": {nil, func(ctx tool.Context, _ none) (string, error) {
			<-ctx.Done()
			return "", fault.New(fault.QueueFull, "x")
		}, fault.ToolCancelled},
		"had finished": {nil, func(ctx tool.Context, _ none) (string, error) { <-ctx.Done(); return "paid", nil }, ""},
		"never returns": {nil, func(ctx tool.Context, _ none) (string, error) {
			<-ctx.Value(releaseKey{}).(chan none)
			return "late", nil
		}, fault.ToolCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				release := make(chan none)
				defer close(release)
				ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), releaseKey{}, release))
				defer cancel(nil)
				time.AfterFunc(time.Second, func() { cancel(tc.cause) })
				start := time.Now()
				got, _, err := runIn(t, tool.Context{Context: ctx}, tool.Define("a", "d", tc.h), `{}`)
				if tc.code == "" {
					if err != nil || got != `"paid"` {
						t.Errorf("got %s, %v", got, err)
					}
					return
				}
				wantFault(t, err, tc.code, "cancelled")
				if max := time.Second + tool.InterruptGrace; time.Since(start) > max {
					t.Errorf("took %v, want at most %v", time.Since(start), max)
				}
			})
		})
	}
}

type releaseKey struct{}

func TestRun_NoPartialAfterTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		late := make(chan error, 1)
		release := make(chan none)
		h := func(_ tool.Context, _ json.RawMessage, yield tool.Yield) (json.RawMessage, error) {
			<-release
			late <- yield(json.RawMessage("1"))
			return nil, nil
		}
		tl := tool.New("a", "d", h, tool.Stream(), tool.Timeout(time.Second))
		_, partials, err := run(t, tl, `{}`)
		wantFault(t, err, fault.ToolTimeout)
		close(release)
		if err := <-late; err == nil || len(partials) != 0 {
			t.Errorf("a late yield got %v, partials %q", err, partials)
		}
	})
}

func TestRun_ManyAtOnce(t *testing.T) {
	t.Parallel()
	tl := tool.DefineStream("a", "d", func(_ tool.Context, in query) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) { _ = yield(in.Query, nil) && yield(in.Query+"!", nil) }
	})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			q := fmt.Sprint("q", i)
			args := json.RawMessage(fmt.Sprintf(`{"query":%q}`, q))
			if got, partials, err := run(t, tl, string(args)); err != nil || got != `"`+q+`!"` || len(partials) != 2 {
				t.Errorf("%s: got %s, %q, %v", q, got, partials, err)
			}
		})
	}
	wg.Wait()
}
