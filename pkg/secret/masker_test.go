package secret_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/secret"
)

func book(t testing.TB, pairs ...string) *secret.Book {
	t.Helper()
	b := secret.NewBook(nil)
	for i := 0; i < len(pairs); i += 2 {
		if err := b.Add(pairs[i], pairs[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// nasty needs every escape there is.
const nasty = "p\"a\\s/s<w>&o+r d=\t\u00e9\u2028%2F"

// F159: the value of a credential, as it is and in the forms in which it gets into
// results and error messages.
func TestMasker_F159_FindsEveryForm(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"s3cr3t-canary", nasty, "4111111111111111", "sk/Abc+Def"} {
		m := book(t, "TOKEN", value).Masker()
		quoted, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := json.Marshal(string(quoted))
		if err != nil {
			t.Fatal(err)
		}
		for form, text := range map[string]string{
			"raw": value, "JSON": string(quoted), "JSON in JSON": string(twice), "Go": strconv.Quote(value),
			"query": url.QueryEscape(value), "path": url.PathEscape(value), "component": strings.ReplaceAll(url.QueryEscape(value), "+", "%20"),
			"whole path": strings.NewReplacer("+", "%20", "%2F", "/").Replace(url.QueryEscape(value)), "lower query": strings.ToLower(url.QueryEscape(value)),
			"hex": hex.EncodeToString([]byte(value)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(value))),
			"base64": base64.StdEncoding.EncodeToString([]byte(value)), "base64 url": base64.RawURLEncoding.EncodeToString([]byte(value)),
		} {
			if form == "lower query" && strings.ToLower(value) != value {
				continue
			}
			got := m.Text("before " + text + " after")
			if !strings.Contains(got, "[TOKEN]") || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
				t.Errorf("%q as %s %s: %q", value, form, text, got)
			}
			if strings.Contains(got, value) || form == "base64" && got != "before [TOKEN] after" {
				t.Errorf("%q as %s: %q", value, form, got)
			}
		}
		for before := range 5 {
			for after := range 5 {
				for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
					text := e.EncodeToString([]byte(strings.Repeat("u", before) + value + strings.Repeat("v", after)))
					got := m.Text(text)
					if !strings.Contains(got, "[TOKEN]") || len(got)-len("[TOKEN]") > (before+after)*4/3+6 {
						t.Errorf("%q between %d and %d bytes in base64 %s: %q", value, before, after, text, got)
					}
				}
			}
		}
	}
}

func TestMasker_PartsOfAValue(t *testing.T) {
	t.Parallel()
	key := "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEA\n-----END PRIVATE KEY-----\n"
	m := book(t, "KEY", key, "DB", "postgres://app:hunter2hunter2@db/prod", "NATS_URL", "nats://tokentoken@host:4222").Masker()
	for text, want := range map[string]string{
		key:                           "[KEY]",
		strings.TrimSpace(key):        "[KEY]",
		"AQEFAASCBKcwggSjAgEA":        "[KEY]",
		"-----BEGIN PRIVATE KEY-----": "-----BEGIN PRIVATE KEY-----",
		"password hunter2hunter2":     "password [DB]",
		"user app":                    "user app",
		"tokentoken":                  "[NATS_URL]",
	} {
		if got := m.Text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestMasker_OverlappingSecretsAreAllHidden(t *testing.T) {
	t.Parallel()
	m := book(t, "A", "abcdef-12345", "B", "12345-xyz000", "C", "abcdef").Masker()
	for text, want := range map[string]string{
		"abcdef-12345-xyz000": "[A][B]",
		"abcdef-12345":        "[A]",
		"abcdef-":             "[C]-",
		"xabcdefabcdefx":      "x[C][C]x",
	} {
		if got := m.Text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestMasker_JSON(t *testing.T) {
	t.Parallel()
	m := book(t, "TOKEN", nasty, "PIN", "123456").Masker()
	quoted, err := json.Marshal(nasty)
	if err != nil {
		t.Fatal(err)
	}
	unicode := `"`
	for _, r := range nasty { // an encoder may escape everything
		unicode += fmt.Sprintf(`\u%04x`, r)
	}
	unicode += `"`
	for in, want := range map[string]string{
		`{"a":` + string(quoted) + `}`:  `{"a":"[TOKEN]"}`,
		`{` + string(quoted) + `:[1]}`:  `{"[TOKEN]":[1]}`,
		`[` + unicode + `, "\u0041"]`:   `["[TOKEN]", "\u0041"]`,
		`{"pin":123456,"n":12345}`:      `{"pin":"[PIN]","n":12345}`,
		`[-91234567, 1.5e3, 1.1234560]`: `["-9[PIN]7", 1.5e3, "1.[PIN]0"]`,
		`{"ok": true, "none":null}`:     `{"ok": true, "none":null}`,
		`"123456`:                       `"[PIN]`,
		`no 123456 json`:                `no "[PIN]" json`,
		``:                              ``,
	} {
		if got := string(m.JSON(json.RawMessage(in))); got != want {
			t.Errorf("%s:\n got %s\nwant %s", in, got, want)
		}
	}
}

// A masked document is a document, and nothing but the secrets is gone.
func TestMasker_JSONStaysJSON(t *testing.T) {
	t.Parallel()
	values := []string{"s3cr3t-canary", nasty, "123456"}
	m := book(t, "A", values[0], "B", values[1], "C", values[2]).Masker()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Custom(func(t *rapid.T) string {
			return rapid.StringN(0, 8, 20).Draw(t, "before") + rapid.SampledFrom(append(values, "", "s3cr3t")).Draw(t, "secret") + rapid.StringN(0, 8, 20).Draw(t, "after")
		})
		document := map[string]any{}
		for i := range rapid.IntRange(0, 4).Draw(t, "fields") {
			document[strconv.Itoa(i)+text.Draw(t, "key")] = []any{text.Draw(t, "value"), i, true, nil}
		}
		raw, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		got := m.JSON(raw)
		var back map[string]any
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatalf("%s\nbecame\n%s\n%v", raw, got, err)
		}
		for _, value := range values {
			if quoted, _ := json.Marshal(value); strings.Contains(string(got), value) || strings.Contains(string(got), strings.Trim(string(quoted), `"`)) {
				t.Fatalf("%s has %q", got, value)
			}
		}
		if again := m.JSON(got); string(again) != string(got) {
			t.Fatalf("masked twice:\n%s\n%s", got, again)
		}
	})
}

// A secret that is cut anywhere does not get through, and the pieces together are
// the whole, masked.
func TestStream_IsTheWholeInPieces(t *testing.T) {
	t.Parallel()
	values := []string{"s3cr3t-canary", "canary-s3cr3t", "aaaaaa", nasty}
	m := book(t, "A", values[0], "B", values[1], "C", values[2], "D", values[3]).Masker()
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(rapid.SampledFrom(append(values, "s3cr3t", "aaaa", "c", base64.StdEncoding.EncodeToString([]byte(values[0])))), rapid.StringN(0, 5, 10))
		text := strings.Join(rapid.SliceOfN(part, 0, 6).Draw(t, "parts"), "")
		stream, got := m.Stream(), ""
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			got += stream.Write(rest[:n])
			for _, v := range values {
				if strings.Contains(got, v) {
					t.Fatalf("%q let %q through", text, v)
				}
			}
			rest = rest[n:]
		}
		got += stream.Flush()
		if want := m.Text(text); got != want {
			t.Fatalf("%q in pieces: %q, whole: %q", text, got, want)
		}
	})
}

func TestStream_HoldsBackOnlyWhatMayBeASecret(t *testing.T) {
	t.Parallel()
	s := book(t, "A", "s3cr3t-canary").Masker().Stream()
	for _, step := range []struct{ in, out string }{
		{"Hello, ", "Hello, "}, {"the s3cr", "the "}, {"et i", "s3cret i"}, {" s3cr3t-", " "}, {"canary!", "[A]!"}, {"s3c", ""},
	} {
		if got := s.Write(step.in); got != step.out {
			t.Errorf("%q: %q, want %q", step.in, got, step.out)
		}
	}
	if got := s.Flush(); got != "s3c" {
		t.Errorf("at the end %q", got)
	}
}

// Secrets that overlap for ever do not hold a stream for ever.
func TestStream_IsBounded(t *testing.T) {
	t.Parallel()
	s := book(t, "A", strings.Repeat("a", 16)).Masker().Stream()
	out := 0
	for range 64 {
		out += len(s.Write(strings.Repeat("a", 64)))
	}
	if out == 0 {
		t.Error("all of it is held back")
	}
	if got := s.Flush(); strings.Contains(got, strings.Repeat("a", 16)) {
		t.Error(got)
	}
}

func TestMasker_Fault(t *testing.T) {
	t.Parallel()
	m := book(t, "TOKEN", "s3cr3t-canary").Masker()
	cause := fault.New(fault.ToolError, "inner")
	f := fault.Wrap(fault.ToolError, cause, "login with s3cr3t-canary failed").With("args", []string{"-p", "s3cr3t-canary"}).With("n", 1)
	got := m.Fault(f)
	if got.Message != "login with [TOKEN] failed" || fmt.Sprint(got.Context["args"]) != "[-p [TOKEN]]" {
		t.Errorf("%+v", got)
	}
	if got.Unwrap() != error(cause) || f.Context["args"].([]string)[1] != "s3cr3t-canary" {
		t.Error("the cause is gone, or the fault itself was changed")
	}
	if m.Fault(nil) != nil {
		t.Error("nil")
	}
}

func TestBook_Bounds(t *testing.T) {
	t.Parallel()
	b := secret.NewBook(nil)
	if err := b.Add("SHORT", " true\n"); err != nil || b.Masker().Text("true") != "true" || secret.Maskable(" true\n") {
		t.Errorf("a short value: %v", err)
	}
	long := strings.Repeat("x", secret.LengthMax+1)
	err := b.Add("LONG", long)
	if fault.CodeOf(err) != fault.InvalidConfig || !strings.Contains(err.Error(), "[LONG]") || strings.Contains(err.Error(), long) {
		t.Errorf("a long value: %.200v", err)
	}
	for i := range secret.CountMax {
		if err := b.Add("N", "value-"+strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Add("N", "value-0"); err != nil {
		t.Errorf("known already: %v", err)
	}
	if err := b.Add("N", "one too many"); fault.CodeOf(err) != fault.InvalidConfig {
		t.Errorf("full: %v", err)
	}
	var none *secret.Book
	if err := none.Add("A", "s3cr3t-canary"); err != nil || none.Masker().Text("s3cr3t-canary") != "s3cr3t-canary" {
		t.Error("a nil book")
	}
	if got := book(t, "bad name]\"", "s3cr3t-canary").Masker().Text("s3cr3t-canary"); got != "[secret]" {
		t.Errorf("a name that needs escapes: %s", got)
	}
}

func TestBook_ParentsSecretsCount(t *testing.T) {
	t.Parallel()
	parent := secret.NewBook(nil)
	child := secret.NewBook(parent)
	if err := child.Add("CALL", "call-secret"); err != nil {
		t.Fatal(err)
	}
	if err := parent.Add("PROCESS", "process-secret"); err != nil {
		t.Fatal(err)
	}
	text := "call-secret process-secret"
	if got := child.Masker().Text(text); got != "[CALL] [PROCESS]" {
		t.Error(got)
	}
	if err := parent.Add("LATE", "late-secret"); err != nil {
		t.Fatal(err)
	}
	if got := child.Masker().Text("late-secret"); got != "[LATE]" {
		t.Error(got)
	}
	if got := parent.Masker().Text(text); got != "call-secret [PROCESS]" {
		t.Error(got)
	}
}

func BenchmarkMasker_Text(b *testing.B) {
	m := book(b, "A", "s3cr3t-canary-0123456789", "B", "another-secret-of-some-length", "C", "nats://user:password-of-nats@host").Masker()
	for name, text := range map[string]string{"clean": strings.Repeat("The quick brown fox jumps. ", 4000), "hits": strings.Repeat("Bearer s3cr3t-canary-0123456789, ", 3000)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				m.Text(text)
			}
		})
	}
}

func BenchmarkBook_Masker(b *testing.B) {
	for b.Loop() {
		book(b, "A", "s3cr3t-canary-0123456789", "B", "another-secret-of-some-length").Masker()
	}
}

// A secret that is cut between two documents is hidden in both, but for a part that
// is too short to be taken for one.
func TestMasker_Fragment(t *testing.T) {
	t.Parallel()
	const value = "s3cr3t-canary-0123456789"
	m := book(t, "TOKEN", value).Masker()
	for cut := range len(value) + 1 {
		first, err := json.Marshal("It is " + value[:cut])
		if err != nil {
			t.Fatal(err)
		}
		second, err := json.Marshal(map[string]string{"rest": value[cut:] + ", she said"})
		if err != nil {
			t.Fatal(err)
		}
		got := string(m.Fragment(first)) + string(m.Fragment(second))
		for i := range len(value) - secret.LengthMin + 1 {
			if part := value[i : i+secret.LengthMin]; strings.Contains(got, part) {
				t.Errorf("cut at %d: %q in %s", cut, part, got)
			}
		}
		if !strings.HasPrefix(got, `"It is `) || !strings.HasSuffix(got, `, she said"}`) {
			t.Errorf("cut at %d: %s", cut, got)
		}
	}
	var none *secret.Masker
	if got := string(none.Fragment(json.RawMessage(`"x"`))); got != `"x"` {
		t.Error(got)
	}
}
