package program_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/program"
)

// TestMain lets the test binary play a program that starts another one outside
// its process group and ends, or a worker.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "escape" {
		cmd := exec.Command(os.Args[2], os.Args[3:]...)
		cmd.Stdout, cmd.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setsid: true}
		fmt.Print("1\n8")
		if err := cmd.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 4 && os.Args[1] == "work" {
		if err := work(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// work is what TestMain plays as a worker: it runs one call of a program that
// says so in the FIFO life and then waits for the FIFO hold.
func work(life, hold string) error {
	p := sh(fmt.Sprintf(`exec 3>%s; echo up >&3; read x < %s; echo done >&3`, life, hold))
	_, err := p.Tool("p", "d").Run(tool.Context{}, json.RawMessage(`{}`), nil)
	return err
}

func sh(script string) program.Program { return program.Program{Command: []string{"sh", "-c", script}} }

func lines(script string) program.Program {
	p := sh(script)
	p.Stream = true
	return p
}

func run(t *testing.T, tl tool.Tool, args string) (result string, partials []string, err error) {
	t.Helper()
	ctx := tool.Context{Context: t.Context(), RunID: "run_1", CallID: crumbs.ToolCallID("run_1", 2, 0), Attempt: 3, ToolName: "tool_p"}
	raw, err := tl.Run(ctx, json.RawMessage(args), func(p json.RawMessage) error {
		partials = append(partials, string(p))
		return nil
	})
	return string(raw), partials, err
}

func wantFault(t *testing.T, err error, code fault.Code, parts ...string) *fault.Error {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != code {
		t.Fatalf("got error %v, want code %s", err, code)
	}
	for _, p := range parts {
		if !strings.Contains(f.Message, p) {
			t.Errorf("message %q does not say %q", f.Message, p)
		}
	}
	return f
}

func TestProgram_Answers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		p        program.Program
		args     string
		want     string
		partials []string
	}{
		"echo":                {sh(`cat`), `{"a":[1,2]}`, `{"a":[1,2]}`, nil},
		"end of input":        {sh(`wc -c | tr -d ' '`), `{"a":1}`, `7`, nil},
		"does not read":       {sh(`echo '"x"'`), `{"a":"` + strings.Repeat("x", 200_000) + `"}`, `"x"`, nil},
		"space around":        {sh(`printf '\n {"b": 1}\n\n'`), `{}`, `{"b": 1}`, nil},
		"several lines, one":  {sh(`printf '{\n"b":1\n}'`), `{}`, "{\n\"b\":1\n}", nil},
		"null":                {sh(`echo null`), `{}`, `null`, nil},
		"noise on stderr":     {sh(`echo hello >&2; echo 1`), `{}`, `1`, nil},
		"stream, CF-S01":      {lines(`echo 1; echo 2`), `{}`, `2`, []string{"1", "2"}},
		"stream, no newline":  {lines(`echo 1; printf 2`), `{}`, `2`, []string{"1", "2"}},
		"stream, blank lines": {lines(`echo 1; echo; echo ' '`), `{}`, `1`, []string{"1"}},
		"stream, CF-S04":      {lines(`true`), `{}`, `null`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tl := tc.p.Tool("p", "d")
			if err := tl.Err(); err != nil {
				t.Fatal(err)
			}
			got, partials, err := run(t, tl, tc.args)
			if err != nil || got != tc.want {
				t.Fatalf("got %q, %v, want %q", got, err, tc.want)
			}
			if d := cmp.Diff(tc.partials, partials); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestProgram_Failures(t *testing.T) {
	t.Parallel()
	endless := `yes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx`
	for name, tc := range map[string]struct {
		p    program.Program
		code fault.Code
		say  []string
	}{
		"exit status":          {sh(`echo 1; echo no disk >&2; exit 3`), fault.ToolError, []string{"exit status 3", "no disk"}},
		"signal":               {sh(`kill -9 $$`), fault.ToolError, []string{"killed"}},
		"text":                 {sh(`echo hello; echo why >&2`), fault.ToolError, []string{"not one JSON document", "hello", "why"}},
		"two documents":        {sh(`echo 1; echo 2`), fault.ToolError, []string{"not one JSON document"}},
		"nothing":              {sh(`true`), fault.ToolError, []string{"wrote nothing"}},
		"not UTF-8":            {sh(`printf '"\377"'`), fault.ToolError, []string{"JSON"}},
		"too much":             {sh(endless), fault.PayloadTooLarge, []string{"1048576"}},
		"stream, text":         {lines(`echo 1; echo oops; sleep 60`), fault.ToolError, []string{"line 2", "oops"}},
		"stream, line too big": {lines(endless + ` | tr -d '\n'`), fault.PayloadTooLarge, []string{"1048576"}},
		"stream, CF-S05":       {lines(`echo 1; exit 1`), fault.ToolError, []string{"exit status 1"}},
		"not there":            {program.Program{Command: []string{"./no_such_program"}}, fault.ToolError, []string{"not found"}},
		"no directory":         {program.Program{Command: []string{"sh"}, Dir: "/no/such/dir"}, fault.ToolError, []string{"not found"}},
		"not executable":       {program.Program{Command: []string{"./program_test.go"}}, fault.ToolError, []string{"not executable"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, partials, err := run(t, tc.p.Tool("p", "d"), `{}`)
			wantFault(t, err, tc.code, tc.say...)
			if want := tc.p.Stream && strings.HasPrefix(tc.p.Command[2], "echo 1"); want != (len(partials) == 1) {
				t.Errorf("partials %q", partials)
			}
		})
	}
}

func TestProgram_OutputTooDeep(t *testing.T) {
	t.Parallel()
	for _, n := range []int{tool.DepthMax, tool.DepthMax + 1, 9_995, 20_000} {
		p := program.Program{Command: []string{"printf", "%s", strings.Repeat("[", n) + strings.Repeat("]", n)}}
		for _, p.Stream = range []bool{false, true} {
			_, partials, err := run(t, p.Tool("p", "d"), `{}`)
			if n > tool.DepthMax {
				wantFault(t, err, fault.ToolResultInvalid, fmt.Sprintf("%d levels", n))
			} else if err != nil {
				t.Errorf("%d levels: %v", n, err)
			}
			if n > tool.DepthMax && len(partials) > 0 {
				t.Errorf("%d partials of %d levels", len(partials), n)
			}
		}
	}
}

func TestProgram_EndOfStderr(t *testing.T) {
	t.Parallel()
	_, _, err := run(t, sh(`yes begin | head -c 100000 >&2; echo the end >&2; exit 1`).Tool("p", "d"), `{}`)
	f := wantFault(t, err, fault.ToolError, "the end")
	if n := len(f.Message); n < program.StderrMax/2 || n > program.StderrMax+200 {
		t.Errorf("message of %d bytes", n)
	}
}

func TestProgram_F101_OnlyDeclaredVariables(t *testing.T) {
	t.Parallel()
	parent := map[string]string{"PATH": os.Getenv("PATH"), "HOME": "/home/w", "LANG": "C", "TOKEN": "t", "KEY": "k", "EMPTY": ""}
	for i := range 40 {
		parent[fmt.Sprintf("SECRET_%d", i)] = "s"
	}
	p := sh(`env | grep -v -e '^_=' -e '^PWD=' -e '^SHLVL=' -e '^OLDPWD=' -e '^CRUMB_FILES_DIR=' | sort | tr '\n' ' ' | sed 's/.*/"&"/'`)
	p.Lookup = func(name string) (string, bool) { v, ok := parent[name]; return v, ok }
	p.Env = []string{"TOKEN", "KEY"}
	got, _, err := run(t, p.Tool("p", "d"), `{}`)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`"CRUMB_ATTEMPT=3 CRUMB_CALL_ID=run_1.2.0 CRUMB_RUN_ID=run_1 CRUMB_TOOL_NAME=tool_p HOME=/home/w KEY=k LANG=C PATH=%s TOKEN=t "`, parent["PATH"])
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, name := range []string{"UNSET", "EMPTY"} {
		p.Env = []string{"TOKEN", name}
		tl := p.Tool("p", "d")
		err := tl.Ready(tool.Context{Context: t.Context()})
		if f := wantFault(t, err, fault.CredentialMissing, name); f.Context["name"] != name {
			t.Errorf("context %v", f.Context)
		}
		_, _, err = run(t, tl, `{}`)
		wantFault(t, err, fault.CredentialMissing, name)
	}
	for _, name := range []string{"*", "PATH*", "A=B", "", "CRUMB_RUN_ID"} {
		p.Env = []string{name}
		wantFault(t, p.Tool("p", "d").Err(), fault.InvalidConfig, fmt.Sprintf("%q", name))
	}
}

// What a declared variable holds is in no result and no error, also where the error
// quotes a part only (F159).
func TestProgram_F159_NothingShowsASecret(t *testing.T) {
	t.Parallel()
	secretive := func(script string) program.Program {
		p := sh(script)
		p.Env = []string{"TOKEN"}
		p.Lookup = func(name string) (string, bool) {
			if name == "TOKEN" {
				return "s3cret-s3cret", true
			}
			return os.LookupEnv(name)
		}
		return p
	}
	p := secretive(`echo "{\"$TOKEN\":\"$(printf %s "$TOKEN" | base64)\"}"; echo "[\"$TOKEN\"]"`)
	p.Stream = true
	got, partials, err := run(t, p.Tool("p", "d"), `{}`)
	if err != nil || got != `["[TOKEN]"]` || len(partials) != 2 || partials[0] != `{"[TOKEN]":"[TOKEN]"}` {
		t.Errorf("%s, partials %q, %v", got, partials, err)
	}
	for _, script := range []string{
		`echo "login with $TOKEN failed" >&2; exit 1`, `echo "$TOKEN"`,
		`printf %0190d 0; echo "$TOKEN$TOKEN"`,                                              // the excerpt ends in the middle
		`echo "$TOKEN" >&2; yes | tr -d '\n' | head -c 4083 >&2; echo "$TOKEN" >&2; exit 1`, // the end of stderr begins there
	} {
		_, _, err := run(t, secretive(script).Tool("p", "d"), `{}`)
		if f := wantFault(t, err, fault.ToolError, "[TOKEN"); strings.Contains(f.Message, "s3cret") || strings.Contains(f.Message, "cret") {
			t.Errorf("%s: message %q", script, f.Message)
		}
	}
}

// F096: two calls with other values for one name see their own, and the
// worker's environment never changes.
func TestProgram_F096_EnvironmentOfOneCall(t *testing.T) {
	t.Parallel()
	before := os.Environ()
	results := make(chan string, 2)
	for _, v := range []string{"one", "two"} {
		p := sh(`echo "\"$TOKEN\""`)
		p.Env = []string{"TOKEN"}
		p.Lookup = func(name string) (string, bool) {
			if name == "TOKEN" {
				return v, true
			}
			return os.LookupEnv(name)
		}
		go func() {
			got, _, err := run(t, p.Tool("p", "d"), `{}`)
			results <- fmt.Sprint(got, err)
		}()
	}
	got := []string{<-results, <-results}
	slices.Sort(got)
	if d := cmp.Diff([]string{`"one"<nil>`, `"two"<nil>`}, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(before, os.Environ()); d != "" {
		t.Error(d)
	}
}

func TestProgram_Dir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "answer.sh"), []byte("#!/bin/sh\necho \"\\\"$(basename \"$PWD\")\\\"\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := program.Program{Command: []string{"./answer.sh"}, Dir: dir}
	got, _, err := run(t, p.Tool("p", "d"), `{}`)
	if err != nil || got != `"`+filepath.Base(dir)+`"` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestProgram_WrongDeclaration(t *testing.T) {
	t.Parallel()
	wantFault(t, program.Program{}.Tool("p", "d").Err(), fault.InvalidConfig, "0 words")
	wantFault(t, sh("true").Tool("Bad-Name", "d").Err(), fault.InvalidName, "bad_name")
}

// watch returns the path of a FIFO that a program's background process opens
// for writing, and a channel that is closed when no process has it open.
func watch(t *testing.T) (path string, gone <-chan struct{}) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "alive")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		f, err := os.Open(path)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		_, _ = io.Copy(io.Discard, f)
	}()
	return path, closed
}

func TestProgram_F037_IdleLimitKillsTheGroup(t *testing.T) {
	t.Parallel()
	path, gone := watch(t)
	p := lines(`sleep 300 > ` + path + ` & echo 1; wait`)
	_, partials, err := run(t, p.Tool("p", "d", tool.IdleTimeout(300*time.Millisecond), tool.Timeout(time.Minute)), `{}`)
	f := wantFault(t, err, fault.ToolTimeout, "300ms", "1m0s")
	if f.Context["limit"] != "idle" || len(partials) != 1 {
		t.Errorf("context %v, partials %q", f.Context, partials)
	}
	<-gone
}

func TestProgram_F038_TotalLimit(t *testing.T) {
	t.Parallel()
	p := sh(`trap 'echo "{\"status\":\"(no response)\"}"; exit 0' TERM; sleep 300 & wait`)
	_, _, err := run(t, p.Tool("p", "d", tool.Timeout(300*time.Millisecond)), `{}`)
	wantFault(t, err, fault.ToolTimeout, "total limit of 300ms")
}

// A program that ignores SIGTERM is killed with everything in its group.
func TestProgram_CancelKillsWhatIgnoresSIGTERM(t *testing.T) {
	t.Parallel()
	path, gone := watch(t)
	p := lines(`trap '' TERM; sleep 300 > ` + path + ` & echo '"up"'; wait; sleep 300`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := p.Tool("p", "d").Run(tool.Context{Context: ctx}, json.RawMessage(`{}`), func(json.RawMessage) error { cancel(); return nil })
	wantFault(t, err, fault.ToolCancelled)
	<-gone
}

func TestProgram_LeftoversAreKilled(t *testing.T) {
	t.Parallel()
	path, gone := watch(t)
	got, _, err := run(t, sh(`exec 3>`+path+`; sleep 300 & sleep 300 & echo 1`).Tool("p", "d"), `{}`)
	if err != nil || got != "1" {
		t.Errorf("got %s, %v", got, err)
	}
	<-gone
}

// escape is a program that writes a line and half of one, and leaves the
// command behind with its standard output.
func escape(t *testing.T, command ...string) program.Program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return program.Program{Command: append([]string{self, "escape"}, command...)}
}

// A process that left the group and keeps the output open holds no call up, and
// what came until then is no result.
func TestProgram_EscapedProcessCutsTheOutput(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hold")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	hold, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hold.Close() }) // the escaped ones end
	for _, tc := range []struct {
		name     string
		command  []string
		stream   bool
		partials []string
	}{
		{"silent", []string{"cat", path}, false, nil},
		{"silent, stream", []string{"cat", path}, true, []string{"1"}},
		{"endless, stream", []string{"yes", strings.Repeat("1", 1000)}, true, []string{"1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := escape(t, tc.command...)
			p.Stream = tc.stream
			result, partials, err := run(t, p.Tool("p", "d", tool.Timeout(time.Minute)), `{}`)
			wantFault(t, err, fault.ToolError, "output did not end", ">/dev/null")
			if result != "" {
				t.Errorf("result %q", result)
			}
			if d := cmp.Diff(tc.partials, partials[:min(len(partials), 1)]); d != "" {
				t.Error(d)
			}
		})
	}
}

// The reader's pace is not the program's: what waits in the pipe when the
// program ends is read to its end, however late.
func TestProgram_SlowReaderGetsAllLines(t *testing.T) {
	t.Parallel()
	path, gone := watch(t)
	const last = 10_000
	p := lines(fmt.Sprintf(`exec 3>%s; seq 1 %d`, path, last))
	n := 0
	result, err := p.Tool("p", "d").Run(tool.Context{Context: t.Context()}, json.RawMessage(`{}`), func(partial json.RawMessage) error {
		if n++; string(partial) != fmt.Sprint(n) {
			t.Errorf("partial %d is %s", n, partial)
		}
		if n == 1 {
			<-gone // all of it is in the pipe
			late := time.NewTimer(program.DrainMax + program.DrainMax/2)
			<-late.C
		}
		return nil
	})
	if err != nil || string(result) != fmt.Sprint(last) || n != last {
		t.Errorf("got %s, %v after %d partials", result, err, n)
	}
}

// The variable that is missing is declared by a tool, a hook or a parser, and taken off
// there.
func TestProgram_MissingVariableSaysWhoDeclaresIt(t *testing.T) {
	t.Parallel()
	p := sh("true")
	p.Env, p.Lookup = []string{"UNSET"}, func(string) (string, bool) { return "", false }
	for want, tl := range map[string]tool.Tool{
		"tool": p.Tool("p", "d"), "hook": p.Hook("p", []string{crumbs.HookBeforeRun}), "parser": p.Parser("p"),
	} {
		ctx := tool.Context{Context: t.Context(), Hook: &crumbs.HookRef{Name: "p", Point: crumbs.HookBeforeRun}}
		wantFault(t, tl.Ready(ctx), fault.CredentialMissing, "UNSET", "or take it off the "+want+"'s env")
		_, err := tl.Run(ctx, json.RawMessage(`{"text":"a"}`), nil)
		wantFault(t, err, fault.CredentialMissing, "or take it off the "+want+"'s env")
	}
}
